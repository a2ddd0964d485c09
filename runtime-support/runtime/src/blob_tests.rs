//! Weights files: what is accepted, what is refused.
use super::*;

#[repr(C, align(64))]
struct Aligned([u8; 193]);

fn file() -> Aligned {
    let mut bytes = Aligned([0; 193]);
    for (i, byte) in bytes.0[64..192].iter_mut().enumerate() {
        *byte = i as u8;
    }
    let header = blob_header(&bytes.0[64..192]);
    bytes.0[..64].copy_from_slice(&header);
    bytes
}

#[test]
fn a_written_file_loads() {
    let file = file();
    let blob = Blob::<128>::from_bytes(&file.0[..192]).unwrap();
    assert_eq!(blob.get::<[u8; 3], 5>(), &[5, 6, 7]);
    assert_eq!(blob.get::<[u32; 2], 64>()[0], u32::from_le_bytes([64, 65, 66, 67]));
    assert_eq!(blob.payload()[127], 127);
    static EMBEDDED: Blob<64> = Blob::new([0; 64], [7; 64]);
    assert_eq!(EMBEDDED.check_header(), Err(LoadError::Magic));
}

#[test]
fn damaged_files_are_refused() {
    let load = |change: &dyn Fn(&mut [u8])| {
        let mut file = file();
        change(&mut file.0);
        Blob::<128>::from_bytes(&file.0[..192]).err()
    };
    assert_eq!(load(&|_| {}), None);
    assert_eq!(load(&|f| f[0] = 0), Some(LoadError::Magic));
    assert_eq!(load(&|f| f[8] = 9), Some(LoadError::Version { found: 9 }));
    assert_eq!(load(&|f| f[12..16].reverse()), Some(LoadError::Endianness));
    assert_eq!(load(&|f| f[16] = 1), Some(LoadError::Length { expected: 128, found: 65 }));
    for at in 64..192 {
        assert_eq!(load(&|f| f[at] ^= 1), Some(LoadError::Checksum), "{at}");
    }
    let file = file();
    assert_eq!(Blob::<128>::from_bytes(&file.0[1..193]).err(), Some(LoadError::Alignment));
    assert_eq!(Blob::<128>::from_bytes(&file.0).err(), Some(LoadError::Length { expected: 192, found: 193 }));
    assert_eq!(Blob::<128>::from_bytes(&[]).err(), Some(LoadError::Length { expected: 192, found: 0 }));
}

#[test]
fn the_checksum_sees_length_and_order() {
    assert_ne!(checksum(&[0; 64]), checksum(&[0; 65]));
    assert_ne!(checksum(&[1, 2]), checksum(&[2, 1]));
    let (mut a, mut b) = ([0u8; 64], [0u8; 64]);
    (a[0], b[32]) = (1, 1);
    assert_ne!(checksum(&a), checksum(&b));
}
