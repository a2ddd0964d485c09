include_ir::include_ir!("models/unknown_operation.xml");

fn main() {}
