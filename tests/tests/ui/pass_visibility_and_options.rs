mod inner {
    include_ir::include_ir!(pub(crate) mod net = "models/relu.xml", kernels: reference, shape: "x=1,4",);
}

fn main() {
    let mut model = inner::net::Model::boxed();
    assert_eq!(model.run(&[-1.0, 0.0, 1.0, 2.0]).y, &[0.0, 0.0, 1.0, 2.0]);
}
