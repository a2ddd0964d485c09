include_ir::include_ir!("models/relu.xml", weigths: embed);

fn main() {}
