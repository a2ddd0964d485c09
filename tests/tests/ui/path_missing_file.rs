include_ir::include_ir!("no/such/model.xml");

fn main() {}
