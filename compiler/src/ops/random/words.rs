//! Sequences of random words of 32 bits: Philox4x32-10, computed where they are used, and the Mersenne twister, whose
//! words depend on the seed alone and are a table.

use super::Alignment;
use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use crate::read::Attributes;
use crate::tensor::Tensor;

/// What a sequence begins with.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    global: u64,
    op: u64,
}

impl Seeds {
    /// Reads `global_seed` and `op_seed`.
    ///
    /// # Errors
    /// Values that are no whole numbers.
    pub fn parse(attributes: &Attributes) -> Result<Self, Diagnostic> {
        let seed = |name: &str| Ok(attributes.int_or(name, 0)? as u64);
        Ok(Seeds { global: seed("global_seed")?, op: seed("op_seed")? })
    }
}

/// Random words.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// `[blocks, 2]` of u64: the first two and the last two words of every block, the first one in the lower half.
    Blocks(BufferId),
    /// One u32 each.
    Table(BufferId),
}

/// Words of a Philox block.
const BLOCK: i64 = 4;

/// Longest table.
const MOST: usize = 1 << 28;

/// Number of blocks that hold `count` words.
pub fn blocks(count: &Dim) -> Dim {
    count.ceil_div(&Dim::constant(BLOCK))
}

impl Words {
    /// At least `count` words of Philox4x32-10, from block `passed` (a scalar) on.
    ///
    /// # Errors
    /// An internal error where `passed` does not exist.
    pub fn philox(
        builder: &mut Builder,
        seeds: Seeds,
        count: &Dim,
        passed: Option<BufferId>,
    ) -> Result<Self, Diagnostic> {
        let blocks = blocks(count);
        let buffer = builder.temporary(ElementType::U64, vec![blocks.clone(), Dim::constant(2)]);
        for half in [0, 1] {
            let mut n = builder.nest(std::slice::from_ref(&blocks));
            let i = n.map_axes();
            let block = n.index(i.first().unwrap_or(&Dim::constant(0)));
            let mut block = n.cast(ElementType::U64, block);
            if let Some(passed) = passed {
                let passed = n.load(passed, &[])?;
                block = n.binary(Binary::Add, block, passed);
            }
            let value = philox(&mut n, block, seeds)[half];
            let at: Vec<Dim> = i.into_iter().chain([Dim::from(half)]).collect();
            n.store(buffer, &at, value);
        }
        Ok(Words::Blocks(buffer))
    }

    /// At least `count` words of the Mersenne twister.
    ///
    /// # Errors
    /// More words than a table should hold.
    pub fn mersenne(builder: &mut Builder, seeds: Seeds, count: &Dim) -> Result<Self, Diagnostic> {
        let most = usize::try_from(count.upper_bound().max(0)).ok().filter(|most| *most <= MOST);
        let Some(most) = most else {
            let message = format!("{count} random words are more than a table of {MOST} holds");
            return Err(Diagnostic::error(&codes::LIMIT, message).help("the alignment `tensorflow` computes its words"));
        };
        let mut twister = Twister::new(seeds.global as u32);
        let bytes: Vec<u8> = (0..most).flat_map(|_| twister.word().to_le_bytes()).collect();
        let tensor = Tensor { element: ElementType::U32, dims: vec![most], bytes: bytes.into() };
        Ok(Words::Table(builder.constant(tensor)))
    }

    /// Word `at`, as u64.
    ///
    /// # Errors
    /// An internal error where the buffer does not exist.
    pub fn word(&self, n: &mut NestBuilder, at: &Dim) -> Result<Node, Diagnostic> {
        match self {
            Words::Blocks(buffer) => {
                let (two, block) = (Dim::constant(2), Dim::constant(BLOCK));
                let pair = at.modulo(&block).floor_div(&two);
                let value = n.load(*buffer, &[at.floor_div(&block), pair])?;
                let shift = n.index(&(at.modulo(&two) * 32));
                let shift = n.cast(ElementType::U64, shift);
                let value = n.binary(Binary::Shr, value, shift);
                Ok(masked(n, value, 32))
            }
            Words::Table(buffer) => {
                let value = n.load(*buffer, std::slice::from_ref(at))?;
                Ok(n.cast(ElementType::U64, value))
            }
        }
    }

    /// Words `2 * at` and `2 * at + 1` as one of 64 bits, whose higher half is the first or the second one.
    ///
    /// # Errors
    /// An internal error where the buffer does not exist.
    pub fn pair(&self, n: &mut NestBuilder, at: &Dim, first_is_high: bool) -> Result<Node, Diagnostic> {
        let (first, second) = (at.clone() * 2, at.clone() * 2 + 1);
        let (high, low) = if first_is_high { (first, second) } else { (second, first) };
        let (high, low) = (self.word(n, &high)?, self.word(n, &low)?);
        let half = n.constant(Const::U64(32));
        let high = n.binary(Binary::Shl, high, half);
        Ok(n.binary(Binary::Or, high, low))
    }

    /// Floating-point number `at` of the sequence: at least 0, less than 1, with as many bits as the type has in that
    /// interval (PyTorch), or one less.
    ///
    /// # Errors
    /// An internal error where the buffer does not exist.
    pub fn unit(
        &self,
        n: &mut NestBuilder,
        at: &Dim,
        element: ElementType,
        alignment: Alignment,
    ) -> Result<Node, Diagnostic> {
        let mantissa = match element {
            ElementType::F64 => 52,
            ElementType::F16 => 10,
            ElementType::Bf16 => 7,
            _ => 23,
        };
        let bits = mantissa + i32::from(alignment == Alignment::PyTorch);
        let word = if element == ElementType::F64 { self.pair(n, at, true)? } else { self.word(n, at)? };
        let word = masked(n, word, bits.unsigned_abs());
        let wide = if element == ElementType::F64 { ElementType::F64 } else { ElementType::F32 };
        let value = n.cast(wide, word);
        let step = n.constant_like(value, f64::from_bits(((1023 - bits) as u64) << 52));
        Ok(n.binary(Binary::Mul, value, step))
    }
}

/// The lowest bits.
fn masked(n: &mut NestBuilder, value: Node, bits: u32) -> Node {
    let mask = n.constant(Const::U64((1 << bits) - 1));
    n.binary(Binary::And, value, mask)
}

/// Both halves of 64 bits, the lower one first.
fn halves(n: &mut NestBuilder, value: Node) -> [Node; 2] {
    let half = n.constant(Const::U64(32));
    [masked(n, value, 32), n.binary(Binary::Shr, value, half)]
}

/// The four words of a block, in pairs.
fn philox(n: &mut NestBuilder, block: Node, seeds: Seeds) -> [Node; 2] {
    let op = n.constant(Const::U64(seeds.op));
    let ([mut a, mut b], [mut c, mut d]) = (halves(n, block), halves(n, op));
    let mut key = [seeds.global as u32, (seeds.global >> 32) as u32];
    for _ in 0..10 {
        let (first, second) = (n.constant(Const::U64(0xd251_1f53)), n.constant(Const::U64(0xcd9e_8d57)));
        let (first, second) = (n.binary(Binary::Mul, a, first), n.binary(Binary::Mul, c, second));
        let ([first, first_high], [second, second_high]) = (halves(n, first), halves(n, second));
        let [key_a, key_c] = key.map(|key| n.constant(Const::U64(u64::from(key))));
        let mixed = n.binary(Binary::Xor, second_high, b);
        let next = n.binary(Binary::Xor, mixed, key_a);
        let mixed = n.binary(Binary::Xor, first_high, d);
        (a, b, c, d) = (next, second, n.binary(Binary::Xor, mixed, key_c), first);
        let [low, high] = key;
        key = [low.wrapping_add(0x9e37_79b9), high.wrapping_add(0xbb67_ae85)];
    }
    let half = n.constant(Const::U64(32));
    [(a, b), (c, d)].map(|(low, high)| {
        let high = n.binary(Binary::Shl, high, half);
        n.binary(Binary::Or, high, low)
    })
}

/// MT19937.
struct Twister {
    state: [u32; Twister::SIZE],
    used: usize,
}

impl Twister {
    const SIZE: usize = 624;
    const MIDDLE: usize = 397;

    fn new(seed: u32) -> Self {
        let mut state = [seed; Self::SIZE];
        let mut last = seed;
        for (i, slot) in (0u32..).zip(&mut state).skip(1) {
            last = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i);
            *slot = last;
        }
        Twister { state, used: Self::SIZE }
    }

    fn twist(&mut self) {
        for i in 0..Self::SIZE {
            let (this, next) = (self.state[i], self.state[(i + 1) % Self::SIZE]);
            let mixed = (this & 0x8000_0000) | (next & 0x7fff_ffff);
            let odd = if next & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[i] = self.state[(i + Self::MIDDLE) % Self::SIZE] ^ (mixed >> 1) ^ odd;
        }
        self.used = 0;
    }

    fn word(&mut self) -> u32 {
        if self.used == Self::SIZE {
            self.twist();
        }
        let mut word = self.state[self.used];
        self.used += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twister_gives_its_published_sequence() {
        let mut twister = Twister::new(5489);
        assert_eq!(twister.word(), 3_499_211_612);
        let last = (0..9_998).map(|_| twister.word()).last();
        assert_ne!(last, None);
        assert_eq!(twister.word(), 4_123_659_995, "word 10,000");
    }
}
