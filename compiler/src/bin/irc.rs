//! The `irc` command; see [`include_ir_compiler::cli`].

fn main() -> std::process::ExitCode {
    include_ir_compiler::cli::main()
}
