include_ir::include_ir!("models/relu.xml");

fn main() {
    let mut model = relu::Model::boxed();
    model.run(&[0.0f32; 5]);
}
