extern crate std;
use super::*;
use crate::contraction::tests::Random;
use crate::cx::Cx;
use crate::isa::Isa;
use std::vec::Vec;

/// Elements of each operand; a multiple of the lanes of every instruction set.
const N: usize = 64;

/// Random numbers among special ones, and room for the results of all operations.
struct Battery<'a> {
    f: [&'a [f32]; 2],
    i: [&'a [i32]; 2],
    l: [&'a [i64]; 2],
    b: [&'a [u8]; 2],
    h: &'a [u16],
    shift: u32,
}

/// Name of the operation, index of the first lane, bits of the result.
type Results = Vec<(&'static str, usize, Vec<u64>)>;

/// NaN has many representations.
fn float(x: f32) -> u64 {
    u64::from(if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() })
}

impl WithSimd for &Battery<'_> {
    type Output = Results;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Results {
        let mut out = Results::new();
        let mut put = |name, i, x| out.push((name, i, x));
        for i in (0..N).step_by(S::LANES) {
            // SAFETY: LANES divides N.
            unsafe {
                let [a, b] = self.f.map(|x| s.load(x[i..].as_ptr()));
                let [c, d] = self.i.map(|x| s.load_i32(x[i..].as_ptr()));
                let [g, h] = self.l.map(|x| s.load_i64(x[i..].as_ptr()));
                let [p, q] = self.b.map(|x| s.load_u8(x[i..].as_ptr()));
                let floats = |v| {
                    let mut x = [0.0; 16];
                    s.store(x.as_mut_ptr(), v);
                    x[..S::LANES].iter().map(|x| float(*x)).collect()
                };
                let ints = |v| {
                    let mut x = [0; 16];
                    s.store_i32(x.as_mut_ptr(), v);
                    x[..S::LANES].iter().map(|x| *x as u64).collect()
                };
                let longs = |v| {
                    let mut x = [0; 16];
                    s.store_i64(x.as_mut_ptr(), v);
                    x[..S::LANES].iter().map(|x| *x as u64).collect()
                };
                let bytes = |v| {
                    let mut x = [0; 16];
                    s.store_u8(x.as_mut_ptr(), v);
                    x[..S::LANES].iter().map(|x| u64::from(*x)).collect()
                };
                let mask = |m| {
                    let bits = s.mask_bits(m);
                    (0..S::LANES).map(|i| u64::from(bits >> i & 1)).collect()
                };
                macro_rules! two { ($show:ident $a:ident $b:ident: $($name:ident)*) => { $( put(stringify!($name), i, $show(s.$name($a, $b))); )* } }
                macro_rules! one { ($show:ident $a:ident: $($name:ident)*) => { $( put(stringify!($name), i, $show(s.$name($a))); )* } }
                put("load_f16", i, floats(s.load_f16(self.h[i..].as_ptr())));
                two!(floats a b: add sub mul div max min keep_nan);
                let power = s.min(s.max(s.round_half_even(b), s.splat(-252.0)), s.splat(254.0));
                put("scale", i, floats(s.scale(s.add(s.splat(1.0), s.abs(s.sub(a, s.floor(a)))), power)));
                one!(floats a: abs sqrt floor round_half_even);
                two!(ints c d: add_i32 sub_i32 mul_i32 max_i32 min_i32 and_i32 or_i32 xor_i32);
                two!(longs g h: add_i64 sub_i64 mul_i64 max_i64 min_i64 and_i64 or_i64 xor_i64);
                two!(bytes p q: add_u8 sub_u8 max_u8 min_u8 and_u8 or_u8 xor_u8);
                two!(mask a b: eq lt le);
                two!(mask c d: eq_i32 lt_i32);
                two!(mask g h: eq_i64 lt_i64);
                two!(mask p q: eq_u8 lt_u8);
                let n = self.shift;
                two!(ints c n: shl_i32 shr_i32 shr_logical_i32);
                two!(longs g n: shl_i64 shr_i64 shr_logical_i64);
                let (m, o) = (s.lt(a, b), s.lt_i32(c, d));
                two!(mask m o: mask_and mask_or);
                one!(mask m: mask_not);
                put("select", i, floats(s.select(m, a, b)));
                put("select_i32", i, ints(s.select_i32(m, c, d)));
                put("select_i64", i, longs(s.select_i64(m, g, h)));
                put("select_u8", i, bytes(s.select_u8(m, p, q)));
                one!(floats c: i32_to_f32 bits_to_f32);
                one!(ints a: f32_to_i32 f32_to_bits);
                one!(longs c: i32_to_i64);
                one!(ints g: i64_to_i32);
                one!(ints p: u8_to_i32);
                one!(bytes c: i32_to_u8);
                put("splat", i, floats(s.splat(self.f[0][0])));
                put("splat_i32", i, ints(s.splat_i32(self.i[0][0])));
                put("splat_i64", i, longs(s.splat_i64(self.l[0][0])));
                put("splat_u8", i, bytes(s.splat_u8(self.b[0][0])));
            }
        }
        out
    }
}

/// All lanes of one operation, in order.
fn lanes_of(results: &Results, name: &str) -> Vec<u64> {
    results.iter().filter(|r| r.0 == name).flat_map(|r| r.2.iter().copied()).collect()
}

#[test]
fn every_operation_equals_its_plain_definition() {
    let mut r = Random(0x5eed_0002);
    let special = [0.0, -0.0, 0.5, -0.5, 2.5, 1e9, -3e9, 2_147_483_648.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    for case in 0..60 {
        let mut float = || if r.below(3) == 0 { special[r.below(special.len())] } else { r.floats(1)[0] * 9.0 };
        let f: [Vec<f32>; 2] = [0, 1].map(|_| (0..N).map(|_| float()).collect());
        let mut word = || {
            let bits = (r.below(1 << 22) as u64) << 42 ^ (r.below(1 << 22) as u64) << 21 ^ r.below(1 << 22) as u64;
            [bits as i64, 0, -1, 1, 255, 256, i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX)]
                [r.below(20).min(9) * r.below(2)]
        };
        let l: [Vec<i64>; 2] = [0, 1].map(|_| (0..N).map(|_| word()).collect());
        let i: [Vec<i32>; 2] = [0, 1].map(|k| l[k].iter().rev().map(|x| *x as i32 >> (x >> 7 & 24)).collect());
        let b: [Vec<u8>; 2] = [0, 1].map(|k| l[k].iter().map(|x| (x >> 5) as u8).collect());
        let h: Vec<u16> = l[0].iter().map(|x| (x >> 3) as u16).collect();
        let battery = Battery {
            f: [&f[0], &f[1]],
            i: [&i[0], &i[1]],
            l: [&l[0], &l[1]],
            b: [&b[0], &b[1]],
            h: &h,
            shift: r.below(70) as u32,
        };
        let want = battery.run(crate::isa::scalar::Scalar);
        let single = battery.run(crate::isa::scalar::Single);
        let mut all: Vec<(&str, Results)> = std::vec![("single", single)];
        all.extend(Isa::ALL.into_iter().filter_map(Cx::with_isa).map(|cx| (cx.isa().name(), cx.dispatch(&battery))));
        for (isa, got) in &all {
            for name in want.iter().map(|r| r.0).collect::<std::collections::BTreeSet<_>>() {
                let (got, want) = (lanes_of(got, name), lanes_of(&want, name));
                assert_eq!(got.len(), N);
                let at = got.iter().zip(&want).position(|(got, want)| got != want);
                assert!(at.is_none(), "case {case} {isa} {name}: lane {at:?}\n{got:x?}\n{want:x?}");
            }
        }
    }
}

/// Horizontal operations, partial loads and stores, first lanes; checks themselves.
struct Edges;

impl WithSimd for Edges {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (f, i): (Vec<f32>, Vec<i32>) = (0..16).map(|x| (x as f32 + 1.0, x * 3 - 7)).unzip();
        let (l, b): (Vec<i64>, Vec<u8>) = (0..16).map(|x| (i64::from(x) << 33, x as u8 + 200)).unzip();
        for n in 0..=S::LANES + 1 {
            let (n, m) = (n.min(16), n.min(S::LANES));
            let (vf, vi) = (s.load_partial(&f[..n]), s.load_partial_i32(&i[..n]));
            let (vl, vb) = (s.load_partial_i64(&l[..n]), s.load_partial_u8(&b[..n]));
            assert_eq!(s.sum(vf), (m * (m + 1) / 2) as f32);
            assert_eq!(s.greatest(vf), m as f32);
            assert_eq!(s.sum_i32(vi), i[..m].iter().sum::<i32>());
            assert_eq!(
                s.greatest_i32(vi),
                i[..m].iter().copied().chain((m < S::LANES).then_some(0)).max().unwrap_or(0)
            );
            assert_eq!(s.sum_i64(vl), l[..m].iter().sum::<i64>());
            assert_eq!(s.greatest_i64(vl), l[..m].iter().copied().max().unwrap_or(0));
            assert_eq!(s.sum_u8(vb), b[..m].iter().map(|x| u32::from(*x)).sum::<u32>());
            assert_eq!(s.greatest_u8(vb), b[..m].iter().copied().max().unwrap_or(0));
            let (mut of, mut oi, mut ol, mut ob) = ([-1.0f32; 18], [-1i32; 18], [-1i64; 18], [9u8; 18]);
            s.store_partial(&mut of[..n], vf);
            s.store_partial_i32(&mut oi[..n], s.splat_i32(2));
            s.store_partial_i64(&mut ol[..n], s.splat_i64(2));
            s.store_partial_u8(&mut ob[..n], s.splat_u8(2));
            for at in 0..18 {
                let want = if at < m { (f[at], 2, 2, 2) } else { (-1.0, -1, -1, 9) };
                assert_eq!((of[at], oi[at], ol[at], ob[at]), want, "{n} {at}");
            }
            let first = s.mask_first(n);
            assert_eq!(s.mask_bits(first), (1u32 << m) - 1);
            assert_eq!((s.any(first), s.all(first)), (m > 0, m == S::LANES));
        }
        let fused = s.mul_add(s.splat(3.0), s.splat(5.0), s.splat(-7.0));
        assert_eq!(s.greatest(fused), 8.0);
    }
}

#[test]
fn partial_vectors_and_sums_stay_inside() {
    Edges.run(crate::isa::scalar::Single);
    Edges.run(crate::isa::scalar::Scalar);
    for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
        cx.dispatch(Edges);
    }
}

#[test]
fn slices_convert_at_every_length() {
    let mut r = Random(77);
    for n in 0..70 {
        let bytes: Vec<u8> = (0..n).map(|_| r.below(256) as u8).collect();
        let words: Vec<i32> = bytes.iter().map(|x| i32::from(*x).wrapping_mul(0x0101_0101)).collect();
        let (mut scores, best) = (r.floats(n), r.below(n.max(1)));
        if n > 0 {
            scores[best] = 100.0;
            scores[(best + 1) % n] = if n > 1 { f32::NAN } else { 100.0 };
        }
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let (mut floats, mut back, mut long) = (std::vec![0.0; n], std::vec![0; n], std::vec![0; n]);
            convert::from_bytes(cx, &bytes, &mut floats, 1.0 / 255.0, -0.5);
            assert!(floats.iter().zip(&bytes).all(|(x, b)| *x == f32::from(*b) * (1.0 / 255.0) - 0.5));
            convert::to_bytes(cx, &floats, &mut back, 255.0, 127.5);
            assert_eq!(back, bytes);
            convert::widen(cx, &words, &mut long);
            assert!(long.iter().zip(&words).all(|(x, w)| *x == i64::from(*w)));
            assert_eq!(convert::arg_max(cx, &scores), best);
        }
    }
    let mut cut = [7; 4];
    convert::to_bytes(Cx::detect(), &[f32::NAN, 1e20, -1e20, 2.5], &mut cut, 1.0, 0.0);
    assert_eq!((cut, convert::arg_max(Cx::detect(), &[f32::NAN, -f32::INFINITY])), ([0, 255, 0, 2], 1));
}

/// Looks up every number of a vector in turn, and what lies beyond the last one.
struct Lookups;

impl WithSimd for Lookups {
    type Output = (usize, [Vec<f32>; 5]);
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let mut found = [(); 5].map(|()| std::vec![0.0; S::LANES]);
        let table: Vec<f32> = (0..S::LANES).map(|i| i as f32).collect();
        let index: Vec<i32> = (0..S::LANES as i32).map(|i| i * 3 + 1).collect();
        // SAFETY: all are `LANES` long.
        unsafe {
            let (table, index) = (s.load(table.as_ptr()), s.load_i32(index.as_ptr()));
            s.store(found[0].as_mut_ptr(), s.lookup(table, index));
            s.store(found[1].as_mut_ptr(), s.lookup_in_fours(table, index));
            let next = s.add(table, s.splat(S::LANES as f32));
            let index = s.and_i32(index, s.splat_i32(2 * S::LANES as i32 - 1));
            s.store(found[2].as_mut_ptr(), s.lookup_in_two(table, next, index));
            s.store(found[3].as_mut_ptr(), s.splat_two([0.0, 1.0].as_ptr()));
            s.store(found[4].as_mut_ptr(), s.splat_four([0.0, 1.0, 2.0, 3.0].as_ptr()));
        }
        (S::LANES, found)
    }
}

#[test]
fn lanes_are_looked_up_modulo_their_number() {
    for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
        let (lanes, found) = cx.dispatch(Lookups);
        let [a, b, c] = [lanes, lanes.min(4), 2 * lanes]
            .map(|few| (0..lanes).map(|i| (i / few * few + (i * 3 + 1) % few) as f32).collect::<Vec<f32>>());
        let [two, four] = [2, 4].map(|n| (0..lanes).map(|i| (i % n) as f32).collect());
        let want = [a, b, c, two, four];
        assert_eq!(found, want, "{:?}", cx.isa());
    }
}

/// Numbers 0, 1, .. of a square, turned.
struct Turned;

impl WithSimd for Turned {
    type Output = (usize, Vec<f32>);
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let mut square: Vec<f32> = (0..16 * S::LANES).map(|i| i as f32).collect();
        // SAFETY: there are sixteen vectors.
        unsafe {
            let rows = s.turned(core::array::from_fn(|i| s.load(square[i * S::LANES..].as_ptr())));
            for (i, row) in rows.into_iter().enumerate() {
                s.store(square[i * S::LANES..].as_mut_ptr(), row);
            }
        }
        (S::LANES, square)
    }
}

#[test]
fn squares_are_turned() {
    for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
        let (lanes, found) = cx.dispatch(Turned);
        let want: Vec<f32> = (0..lanes * lanes).map(|i| (i % lanes * lanes + i / lanes) as f32).collect();
        assert_eq!(found[..lanes * lanes], want, "{:?}", cx.isa());
    }
}
