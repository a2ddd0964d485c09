//! Microseconds behind two choices of the compiler: 3x3 convolutions as plain sums or by minimal filtering, with weights in
//! the cache or from memory, and narrow groups alone or merged: `cargo bench -p include-ir-runtime --bench choices`.
//!
//! Argument: `isa=avx2` for another instruction set.
use include_ir_runtime::__private::v1::*;
use std::hint::black_box;
use std::time::Instant;

/// Bytes that share the second-level cache: data and sums of a block.
const BLOCK: usize = 640 * 1024;
/// Bytes of weights that come from memory.
const COLD: usize = 48 << 20;

/// A convolution of `size` x `size` pixels with padding; groups of `depth` channels and as many columns.
fn convolution(size: usize, groups: usize, depth: usize, columns: usize) -> Contraction {
    let panel = if columns <= 16 { 16 } else { 32 };
    let (line, pixel) = ((size * groups * depth) as isize, (groups * depth) as isize);
    let bound = |row, tap| Bound { row, tap, stride: 1, dilation: 1, offset: -1, limit: size };
    let row = |a: isize, out: usize| RowAxis { extent: size, a, out: out * groups * columns, residual: 0 };
    let w = packed_len(columns, 9 * depth, panel);
    let group = Batch { extent: groups, a: depth as isize, w, out: columns, residual: 0, bias: columns };
    Contraction {
        batches: [Batch::ONE, group],
        rows: [RowAxis::ONE, RowAxis::ONE, row(line, size), row(pixel, 1)],
        taps: [Tap::ONE, Tap::ONE, Tap { extent: 3, a: line }, Tap { extent: 3, a: pixel }],
        bounds: [bound(2, 2), bound(3, 3), Bound::NONE],
        a_offset: -(line + pixel),
        depth,
        cols: columns,
        panel,
        ..Contraction::NEW
    }
}

/// Minimal filtering with tiles of so many pixels along each axis.
fn filtered(product: Contraction, tile: usize) -> Winograd {
    let tiles = product.rows[3].extent.div_ceil(tile).pow(2);
    let each = 4 * (tile + 2).pow(2) * (product.depth + product.panel);
    let block = tiles.div_ceil(tiles.div_ceil((BLOCK / each).max(12)));
    let left = BLOCK.saturating_sub(each * block) / (4 * (tile + 2).pow(2) * block * product.panel);
    Winograd { product, axes: [2, 3], slices: None, tile, block, chunk: (left + 1) * product.panel }
}

/// Least microseconds of a call that gets one of several copies of so many weights after the other.
fn best(copies: usize, len: usize, mut run: impl FnMut(&[f32])) -> f64 {
    let weights = vec![0.01f32; copies * len];
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        weights.chunks_exact(len.max(1)).for_each(&mut run);
        best = best.min(start.elapsed().as_secs_f64() / copies as f64);
    }
    best * 1e6
}

fn plain(cx: Cx<'_>, c: &Contraction, groups: usize, copies: usize) -> f64 {
    let (data, mut out) = (vec![0.01f32; c.m() * c.depth * groups], vec![0.0f32; c.m() * c.cols * groups]);
    let len = packed_len(c.cols, c.k(), c.panel) * groups;
    best(copies, len, |w| c.run(cx, data[..].src(), w, black_box(&mut out[..]).dst(), Epilogue::NONE))
}

fn by_tiles(cx: Cx<'_>, shape: &Winograd, copies: usize) -> f64 {
    let c = &shape.product;
    let (data, mut out) = (vec![0.01f32; c.m() * c.depth], vec![0.0f32; c.m() * c.cols]);
    let mut scratch = vec![0.0f32; shape.scratch_len()];
    best(copies, shape.weights_len(), |w| {
        shape.run(cx, data[..].src(), w, &mut scratch, black_box(&mut out[..]).dst(), Epilogue::NONE);
    })
}

fn main() {
    let argument = std::env::args().find_map(|argument| argument.strip_prefix("isa=").map(str::to_owned));
    let isa = argument.map_or(Isa::detect(), |name| {
        Isa::ALL.into_iter().find(|isa| isa.name() == name).expect("a known instruction set")
    });
    let cx = Cx::with_isa(isa).expect("an instruction set of this machine");
    println!("pixels, channels, columns: plain sum, tiles of 2 and of 4; the same with weights from memory");
    for size in [7, 11, 14, 28, 56] {
        for (depth, columns) in [(16, 16), (32, 32), (32, 64), (64, 64), (128, 128), (256, 256), (512, 512)] {
            if size * size * depth * columns > 28 * 28 * 256 * 256 {
                continue;
            }
            let c = convolution(size, 1, depth, columns);
            print!("{size} {depth} {columns}:");
            for cold in [0, COLD] {
                let copies = |len: usize| (cold / (4 * len)).max(1);
                let tiles = [2, 4].map(|tile| filtered(c, tile));
                let plain = plain(cx, &c, 1, copies(packed_len(columns, c.k(), c.panel)));
                let [two, four] = tiles.map(|shape| by_tiles(cx, &shape, copies(shape.weights_len())));
                print!(" {plain:.1} {two:.1} {four:.1}");
            }
            println!();
        }
    }
    println!("pixels, channels, columns of a group: alone, and merged to 16 columns");
    for (size, channels, columns) in [(56, 128, 4), (28, 256, 8), (14, 208, 8), (28, 64, 2)] {
        let time =
            |columns: usize| plain(cx, &convolution(size, channels / columns, columns, columns), channels / columns, 1);
        println!("{size} {channels} {columns}: {:.1} {:.1}", time(columns), time(16));
    }
}
