include_ir::include_ir!(models / relu);

fn main() {}
