//! Depthwise convolutions of MobileNetV2, pooling and global averages, warm: `cargo bench -p include-ir-runtime`.
//!
//! GB/s counts input and output once: a window that stays in registers and caches approaches the speed of a copy.
//! Arguments: `isa=avx2` for another instruction set, `only=TEXT` for the rows whose name contains the text.
use include_ir_runtime::__private::v1::*;
use std::hint::black_box;
use std::time::Instant;

/// Input size, channels, stride, how often in the network.
const DEPTHWISE: [[usize; 4]; 10] = [
    [112, 32, 1, 1],
    [112, 96, 2, 1],
    [56, 144, 1, 1],
    [56, 144, 2, 1],
    [28, 192, 1, 2],
    [28, 192, 2, 1],
    [14, 384, 1, 4],
    [14, 576, 1, 2],
    [14, 576, 2, 1],
    [7, 960, 1, 3],
];

/// A k x k window with padding k / 2 over a square NHWC input; elements of input and output.
fn window(size: usize, channels: usize, k: usize, s: usize, pad: usize) -> (Window, usize, usize) {
    let o = (size + 2 * pad - k) / s + 1;
    let (line, pixel) = ((size * channels) as isize, channels as isize);
    let bound = |row, tap| Bound { row, tap, stride: s as isize, dilation: 1, offset: -(pad as isize), limit: size };
    let row = |a, out| RowAxis { extent: o, a: s as isize * a, out, residual: 0 };
    let c = Window {
        rows: [RowAxis::ONE, RowAxis::ONE, row(line, o * channels), row(pixel, channels)],
        taps: [Tap::ONE, Tap::ONE, Tap { extent: k, a: line }, Tap { extent: k, a: pixel }],
        bounds: if pad > 0 { [bound(2, 2), bound(3, 3), Bound::NONE] } else { [Bound::NONE; 3] },
        a_offset: -(pad as isize) * (line + pixel),
        channels,
        ..Window::NEW
    };
    (c, size * size * channels, o * o * channels)
}

fn best(mut f: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..30 {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Operands are aligned as in an arena.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

struct Floats(Vec<Line>);

impl Floats {
    fn new(n: usize, x: f32) -> Self {
        Floats(vec![Line([x; 16]); n.div_ceil(16)])
    }
    fn get(&self) -> &[f32] {
        // SAFETY: a line is 16 floats without padding.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 16) }
    }
    fn get_mut(&mut self) -> &mut [f32] {
        // SAFETY: a line is 16 floats without padding.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 16) }
    }
}

fn main() {
    let argument = |key: &str| std::env::args().find_map(|a| a.strip_prefix(key).map(str::to_owned));
    let isa = argument("isa=").map_or(Isa::detect(), |name| {
        Isa::ALL.into_iter().find(|isa| isa.name() == name).expect("a known instruction set")
    });
    let cx = Cx::with_isa(isa).expect("an instruction set of this machine");
    let only = argument("only=").unwrap_or_default();
    let report = |name: String, c: &Window, (a_len, out_len): (usize, usize), f: &dyn Fn(&[f32], &mut [f32])| {
        if !name.contains(&only) {
            return 0.0;
        }
        let (a, mut out) = (Floats::new(a_len, 0.5), Floats::new(out_len, 0.0));
        let (a, out) = (a.get(), out.get_mut());
        assert!(c.fits(a.src().extent(), out.src().extent()));
        let time = best(|| {
            f(a, out);
            black_box(&out);
        });
        let (bytes, taps) = (4 * (a_len + out_len), c.window() * out_len);
        let (bytes, taps) = (bytes as f64 / time / 1e9, taps as f64 / time / 1e9);
        println!("{name:32} {:8.1} us {bytes:6.1} GB/s {taps:6.1} G taps/s", time * 1e6);
        time
    };
    let mut total = 0.0;
    for [size, channels, s, count] in DEPTHWISE {
        let (c, a_len, out_len) = window(size, channels, 3, s, 1);
        let w = Floats::new(c.window() * channels, 0.25);
        let bias = Floats::new(channels, 0.125);
        let time =
            report(format!("depthwise {size}x{size} {channels} s{s} x{count}"), &c, (a_len, out_len), &|a, out| {
                let bias = Some(bias.get());
                let epilogue = Epilogue { bias, clamp: Some((0.0, 6.0)), ..Epilogue::NONE };
                c.depthwise(cx, a.src(), w.get(), out.dst(), epilogue);
            });
        total += time * count as f64;
    }
    println!("{} depthwise total {:.1} us", isa.name(), total * 1e6);
    let (c, a_len, out_len) = window(112, 64, 3, 2, 1);
    report("max 3x3 s2 112x112 64".into(), &c, (a_len, out_len), &|a, out| {
        c.max(cx, a.src(), out.dst(), Epilogue::NONE);
    });
    let (c, a_len, out_len) = window(20, 256, 5, 1, 2);
    report("max 5x5 s1 20x20 256".into(), &c, (a_len, out_len), &|a, out| {
        c.max(cx, a.src(), out.dst(), Epilogue::NONE);
    });
    for (size, channels) in [(7, 2048), (7, 1280), (56, 64)] {
        let (c, a_len, out_len) = window(size, channels, size, 1, 0);
        report(format!("global average {size}x{size} {channels}"), &c, (a_len, out_len), &|a, out| {
            c.average(cx, a.src(), out.dst(), Divisor::InBounds, Epilogue::NONE);
        });
    }
}
