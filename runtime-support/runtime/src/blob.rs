//! Weights: aligned bytes behind a small header, with typed views proved at compile time.
use crate::arena::{Span, check};
use crate::pod::Pod;

/// Bytes before the payload in a weights file.
pub const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"INCLIRWB";
const FORMAT: u32 = 1;
/// Reads as another number on a machine of the other byte order.
const ENDIAN: u32 = 0x0102_0304;

/// Why external weights were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The file holds another number of bytes than the model needs.
    Length {
        /// Bytes needed, header included.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// The bytes do not start at a multiple of 64.
    Alignment,
    /// Not a weights file of this project.
    Magic,
    /// A weights file of another format version.
    Version {
        /// Version found.
        found: u32,
    },
    /// Written for a machine of the other byte order.
    Endianness,
    /// Right shape, wrong bytes: damaged, or the weights of another build.
    Checksum,
}

impl core::fmt::Display for LoadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LoadError::Length { expected, found } => {
                write!(f, "weights need {expected} bytes, found {found}")
            }
            LoadError::Alignment => f.write_str("weights must start at a multiple of 64 bytes"),
            LoadError::Magic => f.write_str("not a weights file"),
            LoadError::Version { found } => write!(f, "weights format {found}, expected {FORMAT}"),
            LoadError::Endianness => f.write_str("weights have the other byte order"),
            LoadError::Checksum => f.write_str("weights checksum does not match"),
        }
    }
}

impl core::error::Error for LoadError {}

/// Checksum of a payload: four interleaved 64-bit FNV-1a style lanes over 8-byte words.
///
/// Four lanes hide the multiplier's latency; plain loops, because build scripts are not optimised.
#[must_use]
pub fn checksum(payload: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    let mut lanes = [0xCBF2_9CE4_8422_2325_u64, 0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9];
    let (blocks, tail) = payload.as_chunks::<32>();
    let words = blocks.as_flattened().as_chunks::<8>().0;
    for [a, b, c, d] in words.as_chunks::<4>().0 {
        lanes[0] = (lanes[0] ^ u64::from_le_bytes(*a)).wrapping_mul(PRIME).rotate_left(23);
        lanes[1] = (lanes[1] ^ u64::from_le_bytes(*b)).wrapping_mul(PRIME).rotate_left(23);
        lanes[2] = (lanes[2] ^ u64::from_le_bytes(*c)).wrapping_mul(PRIME).rotate_left(23);
        lanes[3] = (lanes[3] ^ u64::from_le_bytes(*d)).wrapping_mul(PRIME).rotate_left(23);
    }
    for byte in tail {
        lanes[0] = (lanes[0] ^ u64::from(*byte)).wrapping_mul(PRIME).rotate_left(23);
    }
    let mut sum = payload.len() as u64;
    for lane in lanes {
        sum = (sum ^ lane).wrapping_mul(PRIME);
        sum ^= sum >> 29;
    }
    sum
}

/// The header that precedes `payload` in a weights file.
///
/// Layout, little endian: magic 8 bytes, format u32, endianness marker u32, payload length u64, checksum u64, zeros.
#[must_use]
pub fn blob_header(payload: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..16].copy_from_slice(&ENDIAN.to_le_bytes());
    header[16..24].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    header[24..32].copy_from_slice(&checksum(payload).to_le_bytes());
    header
}

/// Little-endian number of `N` bytes at `at`.
const fn number(header: &[u8; HEADER_BYTES], at: usize, bytes: usize) -> u64 {
    let mut value = 0;
    let mut i = 0;
    while i < bytes {
        value |= (header[at + i] as u64) << (8 * i);
        i += 1;
    }
    value
}

/// A weights file in memory: header and `BYTES` bytes of payload (a multiple of 64), aligned to 64.
#[repr(C, align(64))]
pub struct Blob<const BYTES: usize> {
    header: [u8; HEADER_BYTES],
    payload: [u8; BYTES],
}

impl<const BYTES: usize> Blob<BYTES> {
    /// Wraps the halves of a weights file.
    #[must_use]
    pub const fn new(header: [u8; HEADER_BYTES], payload: [u8; BYTES]) -> Self {
        const { assert!(BYTES.is_multiple_of(64), "the payload of a weights file is padded to a multiple of 64 bytes") };
        Blob { header, payload }
    }

    /// Everything but the checksum; cheap enough for const evaluation.
    ///
    /// # Errors
    /// The header is of something else.
    pub const fn check_header(&self) -> Result<(), LoadError> {
        if number(&self.header, 0, 8) != u64::from_le_bytes(MAGIC) {
            return Err(LoadError::Magic);
        }
        let format = number(&self.header, 8, 4) as u32;
        if format == FORMAT.swap_bytes() || cfg!(target_endian = "big") {
            return Err(LoadError::Endianness);
        }
        if format != FORMAT {
            return Err(LoadError::Version { found: format });
        }
        if number(&self.header, 12, 4) as u32 != ENDIAN {
            return Err(LoadError::Endianness);
        }
        if number(&self.header, 16, 8) != BYTES as u64 {
            let found = number(&self.header, 16, 8) as usize;
            return Err(LoadError::Length { expected: BYTES, found: found.saturating_add(HEADER_BYTES) });
        }
        Ok(())
    }

    /// `self`, or a compile-time panic if the header is of something else.
    #[must_use]
    pub const fn checked(self) -> Self {
        assert!(self.check_header().is_ok(), "the weights file does not belong to this generated code");
        self
    }

    /// The weights in `bytes`: a whole weights file, 64-byte aligned.
    ///
    /// # Errors
    /// Wrong length, alignment, header or checksum.
    pub fn from_bytes(bytes: &[u8]) -> Result<&Self, LoadError> {
        if bytes.len() != HEADER_BYTES.saturating_add(BYTES) {
            return Err(LoadError::Length { expected: HEADER_BYTES.saturating_add(BYTES), found: bytes.len() });
        }
        let start = bytes.as_ptr().cast::<Self>();
        const { assert!(size_of::<Self>() == HEADER_BYTES + BYTES, "the payload is padded to a multiple of 64 bytes") };
        if !start.is_aligned() {
            return Err(LoadError::Alignment);
        }
        // SAFETY: aligned, exactly as long as `bytes`, and every bit pattern is valid.
        let blob = unsafe { &*start };
        blob.check_header()?;
        crate::pages::map(bytes);
        if checksum(&blob.payload) != number(&blob.header, 24, 8) {
            return Err(LoadError::Checksum);
        }
        Ok(blob)
    }

    /// The `T` at byte `OFF` of the payload; a misfit does not compile.
    #[inline(always)]
    #[must_use]
    pub const fn get<T: Pod, const OFF: usize>(&self) -> &T {
        const {
            assert!(cfg!(target_endian = "little"), "weights are little endian");
            check(&[Span::new::<T>(OFF, 1, 1, 1, false)], BYTES);
        };
        // SAFETY: in bounds and aligned, just proved; `T` is plain data.
        unsafe { &*self.payload.as_ptr().add(OFF).cast::<T>() }
    }

    /// The payload.
    #[must_use]
    pub const fn payload(&self) -> &[u8; BYTES] {
        &self.payload
    }
}

/// Declares a `static` [`Blob`] with the bytes of a weights file, optionally in a linker section.
///
/// `weights_embedded!(pub static WEIGHTS: Blob<4096> = "weights.bin", section = ".weights");`
/// The path may be any expression that `include_bytes!` takes.
#[macro_export]
macro_rules! weights_embedded {
    ($(#[$meta:meta])* $vis:vis static $name:ident : Blob<$bytes:literal> = $path:expr $(, section = $section:literal)? $(;)?) => {
        $(#[$meta])*
        $(#[unsafe(link_section = $section)])?
        $vis static $name: $crate::__private::v1::Blob<{ $bytes }> =
            $crate::__private::v1::blob_of_file(*::core::include_bytes!($path)).checked();
    };
}

/// A blob from the bytes of a whole file: for [`weights_embedded!`].
#[doc(hidden)]
#[must_use]
pub const fn blob_of_file<const FILE: usize, const BYTES: usize>(file: [u8; FILE]) -> Blob<BYTES> {
    assert!(FILE == BYTES + HEADER_BYTES, "the weights file has another length than the generated code expects");
    // A union splits the bytes in one copy: an element-wise loop would make const evaluation slow.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Pair<const BYTES: usize>([u8; HEADER_BYTES], [u8; BYTES]);
    #[repr(C)]
    union Cast<const FILE: usize, const BYTES: usize> {
        file: [u8; FILE],
        pair: Pair<BYTES>,
    }
    let cast = Cast::<FILE, BYTES> { file };
    // SAFETY: both are FILE bytes (checked above) without padding.
    let pair = unsafe { cast.pair };
    Blob::new(pair.0, pair.1)
}

/// Declares a function that returns a `'static` [`Blob`] placed by the assembler: large weights build faster than with
/// [`weights_embedded!`].
///
/// `weights_incbin!(pub fn weights() -> Blob<4096> = "/absolute/weights.bin", "unique_symbol");`
/// The assembler refuses too long a file; [`Blob::check_header`] finds the rest, also too short a file.
#[macro_export]
macro_rules! weights_incbin {
    ($(#[$meta:meta])* $vis:vis fn $name:ident() -> Blob<$bytes:literal> = $path:expr, $symbol:literal $(;)?) => {
        #[cfg(target_vendor = "apple")]
        $crate::weights_incbin!(@asm ".section __TEXT,__const", "_", "", $bytes, $path, $symbol);
        #[cfg(windows)]
        $crate::weights_incbin!(@asm ".section .rdata,\"dr\"", "", "", $bytes, $path, $symbol);
        #[cfg(not(any(windows, target_vendor = "apple")))]
        $crate::weights_incbin!(
            @asm ::core::concat!(".section .rodata.", $symbol, ",\"a\""), "", ::core::concat!(".hidden ", $symbol), $bytes, $path, $symbol
        );
        $(#[$meta])*
        $vis fn $name() -> &'static $crate::__private::v1::Blob<{ $bytes }> {
            unsafe extern "C" {
                #[link_name = $symbol]
                static BYTES: $crate::__private::v1::Blob<{ $bytes }>;
            }
            static MAPPED: $crate::__private::v1::Mapped = $crate::__private::v1::Mapped::new();
            // SAFETY: the assembler placed exactly this many bytes there, aligned to 64, read-only.
            let blob = unsafe { &*(&raw const BYTES) };
            MAPPED.once(blob.payload());
            blob
        }
    };
    (@asm $section:expr, $prefix:literal, $hidden:expr, $bytes:literal, $path:expr, $symbol:literal) => {
        ::core::arch::global_asm!(
            $section,
            ".balign 64",
            ::core::concat!(".globl ", $prefix, $symbol),
            $hidden,
            ::core::concat!($prefix, $symbol, ":"),
            ::core::concat!(".incbin \"", $path, "\""),
            // Too long a file is an error here; what is missing of too short a one becomes zeros.
            ::core::concat!(".org ", $prefix, $symbol, " + 64 + ", $bytes),
            ".text",
        );
    };
}

#[cfg(test)]
#[path = "blob_tests.rs"]
mod tests;
