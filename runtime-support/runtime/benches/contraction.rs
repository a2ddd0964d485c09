//! GFLOP/s of every ResNet-50 convolution, with real padding and warm weights, and of the matrix products of two encoders,
//! directly and over packed rows: `cargo bench -p include-ir-runtime`.
//!
//! Arguments: `isa=avx2` for another instruction set, `only=TEXT` for the shapes whose name contains the text.
use include_ir_runtime::__private::v1::*;
use std::hint::black_box;
use std::time::Instant;

/// Output size, input channels, output channels, kernel, stride, how often in the network.
const SHAPES: [[usize; 6]; 23] = [
    [112, 3, 64, 7, 2, 1],
    [56, 64, 64, 1, 1, 1],
    [56, 64, 64, 3, 1, 3],
    [56, 64, 256, 1, 1, 4],
    [56, 256, 64, 1, 1, 2],
    [56, 256, 128, 1, 1, 1],
    [28, 128, 128, 3, 2, 1],
    [28, 128, 512, 1, 1, 4],
    [28, 256, 512, 1, 2, 1],
    [28, 512, 128, 1, 1, 3],
    [28, 128, 128, 3, 1, 3],
    [28, 512, 256, 1, 1, 1],
    [14, 256, 256, 3, 2, 1],
    [14, 256, 1024, 1, 1, 6],
    [14, 512, 1024, 1, 2, 1],
    [14, 1024, 256, 1, 1, 5],
    [14, 256, 256, 3, 1, 5],
    [14, 1024, 512, 1, 1, 1],
    [7, 512, 512, 3, 2, 1],
    [7, 512, 2048, 1, 1, 3],
    [7, 1024, 2048, 1, 2, 1],
    [7, 2048, 512, 1, 1, 2],
    [7, 512, 512, 3, 1, 2],
];

/// Rows, length of the sum, columns.
const MATRICES: [[usize; 3]; 6] =
    [[64, 384, 384], [64, 384, 1536], [64, 1536, 384], [128, 768, 768], [128, 768, 3072], [128, 3072, 768]];

fn matrix([m, k, n]: [usize; 3]) -> (Contraction, usize) {
    let row = RowAxis { extent: m, a: k as isize, out: n, residual: 0 };
    let rows = [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, row];
    (Contraction { rows, depth: k, cols: n, ..Contraction::NEW }, m * k)
}

fn convolution([o, ic, oc, k, s, _]: [usize; 6]) -> (Contraction, usize) {
    let (size, pad) = (o * s, k / 2);
    let (line, pixel) = ((size * ic) as isize, ic as isize);
    let bound = |row, tap| Bound { row, tap, stride: s as isize, dilation: 1, offset: -(pad as isize), limit: size };
    let c = Contraction {
        rows: [
            RowAxis::ONE,
            RowAxis::ONE,
            RowAxis { extent: o, a: s as isize * line, out: o * oc, residual: 0 },
            RowAxis { extent: o, a: s as isize * pixel, out: oc, residual: 0 },
        ],
        taps: [Tap::ONE, Tap::ONE, Tap { extent: k, a: line }, Tap { extent: k, a: pixel }],
        bounds: if pad > 0 { [bound(2, 2), bound(3, 3), Bound::NONE] } else { [Bound::NONE; 3] },
        a_offset: -(pad as isize) * (line + pixel),
        depth: ic,
        cols: oc,
        ..Contraction::NEW
    };
    (c, size * size * ic)
}

fn best(mut f: impl FnMut()) -> f64 {
    f();
    let mut best = f64::MAX;
    for _ in 0..9 {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Operands are aligned as in an arena or a weights blob.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

fn aligned(n: usize, x: f32) -> Vec<Line> {
    vec![Line([x; 16]); n.div_ceil(16)]
}

fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is 16 floats without padding.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * 16) }
}

/// GFLOP/s of independent fused multiply-adds that never leave registers; clocks change, so it is measured often.
fn peak(cx: Cx<'_>) -> f64 {
    const N: usize = 1_000_000;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        macro_rules! chains {
            ($name:ident, $feature:literal, $set:ident, $fma:ident, $lanes:literal) => {
                #[target_feature(enable = $feature)]
                unsafe fn $name() -> f64 {
                    let b = $set(0.999);
                    let mut x = [$set(1.0); 12];
                    for _ in 0..N {
                        x.iter_mut().for_each(|x| *x = $fma(*x, b, b));
                    }
                    black_box(x);
                    (N * 12 * 2 * $lanes) as f64
                }
            };
        }
        chains!(avx512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, 16);
        chains!(avx2, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps, 8);
        let mut work = 0.0;
        let time = best(|| match cx.isa() {
            // SAFETY: the context proves the instruction set.
            Isa::Avx512 => work = unsafe { avx512() },
            // SAFETY: the context proves the instruction set.
            Isa::Avx2 => work = unsafe { avx2() },
            _ => {}
        });
        work / time / 1e9
    }
    #[cfg(not(target_arch = "x86_64"))]
    f64::NAN
}

/// Seconds of the direct product and of the one over packed rows, by turns.
fn measure(cx: Cx<'_>, c: &Contraction, a_len: usize) -> [f64; 2] {
    let (mut a, mut w) = (aligned(a_len, 0.01), aligned(packed_len(c.cols, c.k(), c.panel), 0.0));
    let (mut bias, mut out) = (aligned(c.cols, 0.1), aligned(c.m() * c.cols, 0.0));
    let mut scratch = aligned(c.packed_rows_len(), 0.0);
    let (a, w, bias, out) = (&*floats(&mut a), floats(&mut w), &*floats(&mut bias), floats(&mut out));
    pack(c.cols, c.k(), c.panel, w, |_, _| 0.01);
    let w = &*w;
    assert!(c.fits(a.src().extent(), w.len(), out.src().extent()));
    let epilogue = Epilogue { bias: Some(bias), clamp: Some((0.0, f32::INFINITY)), ..Epilogue::NONE };
    let mut times = [f64::MAX; 2];
    for _ in 0..3 {
        let direct = best(|| c.run(cx, a.src(), w, black_box(&mut *out).dst(), epilogue));
        let packed = best(|| c.run_packed(cx, a.src(), w, floats(&mut scratch), black_box(&mut *out).dst(), epilogue));
        times = [times[0].min(direct), times[1].min(packed)];
    }
    times
}

fn main() {
    let argument = |key: &str| std::env::args().find_map(|a| a.strip_prefix(key).map(str::to_owned));
    let isa = argument("isa=").map_or(Isa::detect(), |name| {
        Isa::ALL.into_iter().find(|isa| isa.name() == name).expect("a known instruction set")
    });
    let cx = Cx::with_isa(isa).expect("an instruction set of this machine");
    let only = argument("only=").unwrap_or_default();
    let convolutions = SHAPES.map(|shape @ [o, ic, oc, k, s, count]| {
        (format!("{o}x{o} {ic}->{oc} k{k} s{s} x{count}"), convolution(shape), count)
    });
    let matrices = MATRICES.map(|shape @ [m, k, n]| (format!("{m} rows, {k}->{n}"), matrix(shape), 0));
    let (mut total, mut flops) = ([0.0; 2], 0.0);
    println!(
        "{:32} {:>9} {:>8} {:>7} {:>9} {:>8} {:>7}",
        "", "direct ms", "GFLOP/s", "of peak", "packed ms", "GFLOP/s", "of peak"
    );
    for (name, (c, a_len), count) in convolutions.into_iter().chain(matrices).filter(|(name, ..)| name.contains(&only))
    {
        let times = measure(cx, &c, a_len);
        let work = 2.0 * (c.m() * c.k() * c.cols) as f64;
        let peak = peak(cx);
        let [direct, packed] = times.map(|time| {
            let speed = work / time / 1e9;
            format!("{:9.3} {speed:8.1} {:5.1} %", time * 1e3, 100.0 * speed / peak)
        });
        println!("{name:32} {direct} {packed}");
        total = [0, 1].map(|i| total[i] + times[i] * count as f64);
        flops += work * count as f64;
    }
    let [direct, packed] = total.map(|time| format!("{:.1} ms, {:.1} GFLOP/s", time * 1e3, flops / time / 1e9));
    println!("{}, ResNet-50: {direct} directly, {packed} over packed rows", isa.name());
    if "matrix x vector".contains(&only) {
        matrix_vector(cx);
    }
}

/// Adds up everything, with enough independent sums to be bound by memory only.
struct Read<'a>(&'a [f32]);

impl WithSimd for Read<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let mut sums = [s.splat(0.0); 8];
        for chunk in self.0.chunks_exact(8 * S::LANES) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a chunk is eight vectors.
                *sum = s.add(*sum, unsafe { s.load(chunk.as_ptr().add(i * S::LANES)) });
            }
        }
        sums.into_iter().map(|sum| s.sum(sum)).sum()
    }
}

/// Few rows: bound by reading the weights once. Measured on one core with 512-bit and with 256-bit vectors: 0.99 to 1.02 of
/// a plain read of the same bytes from the outer caches for 1 to 3 rows.
fn matrix_vector(cx: Cx<'_>) {
    for (k, n) in [(4096, 4096), (768, 768), (1024, 4096), (2048, 1000)] {
        let bytes = (4 * packed_len(n, k, 32)) as f64;
        let mut data = aligned(packed_len(n, k, 32), 1.0);
        let data = &*floats(&mut data);
        let read = best(|| {
            black_box(cx.dispatch(Read(data)));
        });
        let read = bytes / read / 1e9;
        println!("matrix x vector, {k} x {n}, {:.1} MiB of weights; a plain read: {read:.1} GB/s", bytes / 1048576.0);
        for m in 1..4 {
            let row = RowAxis { extent: m, a: k as isize, out: n, residual: 0 };
            let rows = [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, row];
            let c = Contraction { rows, depth: k, cols: n, ..Contraction::NEW };
            let speed = bytes / measure(cx, &c, m * k)[0] / 1e9;
            println!("m = {m}: {speed:.1} GB/s, {:.2} of the plain read", speed / read);
        }
    }
}
