//! The macros that place weights: both give the bytes of the file, aligned.
use include_ir_runtime::__private::v1::*;
use include_ir_runtime::{weights_embedded, weights_incbin};

weights_embedded!(
    /// The bytes 0..64.
    static EMBEDDED: Blob<64> = "data/weights.bin"
);
#[cfg(target_os = "linux")]
weights_embedded!(static IN_SECTION: Blob<64> = "data/weights.bin", section = ".rodata.model_weights");
#[cfg(unix)]
weights_incbin!(
    /// The bytes 0..64.
    fn assembled() -> Blob<64> = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/weights.bin"), "include_ir_test_weights"
);

fn check(blob: &Blob<64>) {
    assert_eq!(blob.check_header(), Ok(()));
    assert_eq!(blob.get::<[u8; 4], 8>(), &[8, 9, 10, 11]);
    assert_eq!(core::ptr::from_ref(blob).addr() % ALIGN, 0);
}

#[test]
fn embedded_weights() {
    check(&EMBEDDED);
    #[cfg(target_os = "linux")]
    check(&IN_SECTION);
    // The file's own checksum holds, too.
    assert_eq!(blob_header(EMBEDDED.payload()), std::fs::read("tests/data/weights.bin").unwrap()[..64]);
}

#[test]
#[cfg(unix)]
fn assembled_weights() {
    check(assembled());
}
