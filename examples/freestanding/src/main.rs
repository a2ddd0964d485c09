//! Handwritten digits without std, alloc and libc: the whole program is one static ELF that talks to the kernel.
#![no_std]
#![no_main]

#[path = "../../bare-metal/src/evaluate.rs"]
mod evaluate;
mod linux;

include_ir::include_model!("digits");

static MODEL: linux::Taken<digits::Model> = linux::Taken::new(digits::Model::new());

fn main() -> u8 {
    let Some(model) = MODEL.take() else { return 1 };
    let good = evaluate::evaluate(model, &mut linux::print, linux::stack_used);
    u8::from(!good)
}
