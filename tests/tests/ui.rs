//! What the macro says about wrong arguments and wrong models; `TRYBUILD=overwrite` writes the expectations.

use std::path::Path;

#[test]
fn macro_errors() {
    // trybuild compiles in a package of its own, and the macro's paths are relative to that.
    let models = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tests/trybuild/include-ir-tests/models");
    std::fs::create_dir_all(&models).expect("a folder for the models");
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("models")).expect("the models") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, models.join(path.file_name().unwrap_or_default())).expect("a copy");
    }
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass_*.rs");
    cases.compile_fail("tests/ui/fail_*.rs");
    // This message names a file in the target folder, which the expectation knows by its usual place only.
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        cases.compile_fail("tests/ui/path_*.rs");
    }
}
