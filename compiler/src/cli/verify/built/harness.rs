//! Runs compiled models on tensors in files; part of a generated crate, not of the compiler.
//!
//! A tensor is its rank (u64), its dimensions (u64 each) and its elements, little-endian.
#![allow(dead_code)]

use std::io::Write;

/// The tensors of one case: inputs to read, outputs written so far.
pub struct Io {
    inputs: Vec<u8>,
    at: usize,
    outputs: Vec<u8>,
    pub runs: usize,
}

/// An element and its bytes.
pub trait Element: Copy {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, out: &mut Vec<u8>);
}

macro_rules! number {
    ($($t:ty)*) => { $(
        impl Element for $t {
            const SIZE: usize = size_of::<$t>();
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(bytes);
                <$t>::from_le_bytes(own)
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}
number!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

macro_rules! bits {
    ($($t:ident($bits:ty))*) => { $(
        impl Element for include_ir::$t {
            const SIZE: usize = size_of::<$bits>();
            fn read(bytes: &[u8]) -> Self {
                include_ir::$t(<$bits as Element>::read(bytes))
            }
            fn write(self, out: &mut Vec<u8>) {
                self.0.write(out);
            }
        }
    )* };
}
bits!(F16(u16) Bf16(u16) F8e4m3(u8) F8e5m2(u8) F8e8m0(u8));

impl Io {
    /// The tensors of a file.
    pub fn open(inputs: &str) -> Result<Io, String> {
        let inputs = std::fs::read(inputs).map_err(|error| error.to_string())?;
        Ok(Io { inputs, at: 0, outputs: Vec::new(), runs: 1 })
    }

    fn take(&mut self, count: usize) -> Result<&[u8], String> {
        let start = self.at;
        self.at += count;
        self.inputs.get(start..self.at).ok_or_else(|| "the input file is too short".to_owned())
    }

    fn number(&mut self) -> Result<usize, String> {
        Ok(u64::read(self.take(8)?) as usize)
    }

    /// A tensor with any dimensions.
    pub fn tensor<T: Element, const RANK: usize>(&mut self) -> Result<(Vec<T>, [usize; RANK]), String> {
        let rank = self.number()?;
        if rank != RANK {
            return Err(format!("an input has rank {rank}, the model wants {RANK}"));
        }
        let mut dims = [0; RANK];
        for dim in &mut dims {
            *dim = self.number()?;
        }
        let count = dims.iter().product::<usize>();
        let data = self.take(count * T::SIZE)?.chunks_exact(T::SIZE).map(T::read).collect();
        Ok((data, dims))
    }

    /// A tensor of known size.
    pub fn array<T: Element, const N: usize, const RANK: usize>(&mut self, dims: [usize; RANK]) -> Result<Box<[T; N]>, String> {
        let (data, given) = self.tensor::<T, RANK>()?;
        if given != dims {
            return Err(format!("an input has the shape {given:?}, the model wants {dims:?}"));
        }
        data.into_boxed_slice().try_into().map_err(|_| "an input has the wrong size".to_owned())
    }

    /// Appends an output.
    pub fn put<T: Element>(&mut self, data: &[T], dims: &[usize]) {
        (dims.len() as u64).write(&mut self.outputs);
        dims.iter().for_each(|dim| (*dim as u64).write(&mut self.outputs));
        data.iter().for_each(|value| value.write(&mut self.outputs));
    }
}

/// A case: its number in the file names, its number of runs, its code.
pub type Case = (usize, usize, fn(&mut Io) -> Result<(), String>);

/// Runs the cases whose numbers are arguments behind the folder; says `start`, `done` or `error` for each.
pub fn main(cases: &[Case]) {
    let mut arguments = std::env::args().skip(1);
    let folder = std::path::PathBuf::from(arguments.next().unwrap_or_default());
    for wanted in arguments.filter_map(|argument| argument.parse::<usize>().ok()) {
        for (number, runs, run) in cases.iter().filter(|case| case.0 == wanted) {
            say(&format!("start {number}"));
            match one(&folder, *number, *runs, *run) {
                Ok(()) => say(&format!("done {number}")),
                Err(problem) => say(&format!("error {number} {}", problem.replace('\n', " "))),
            }
        }
    }
}

fn one(folder: &std::path::Path, number: usize, runs: usize, run: fn(&mut Io) -> Result<(), String>) -> Result<(), String> {
    let inputs = std::fs::read(folder.join(format!("case_{number}.in"))).map_err(|error| error.to_string())?;
    let mut io = Io { inputs, at: 0, outputs: Vec::new(), runs };
    run(&mut io)?;
    std::fs::write(folder.join(format!("case_{number}.out")), &io.outputs).map_err(|error| error.to_string())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
