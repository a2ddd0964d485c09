//! `include_ir!`: compiles an OpenVINO IR model while your crate compiles.
