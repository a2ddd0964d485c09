include_ir::include_ir!("models/relu.xml", shape: ["x=1..8", "x=8..1"]);

fn main() {}
