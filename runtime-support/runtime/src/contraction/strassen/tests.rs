//! Tests of products in halves against plain sums.
extern crate std;
use super::super::tests::{Random, pack_all};
use super::super::{RowAxis, Tile};
use super::*;
use crate::isa::Isa;
use crate::view::View;
use std::vec;
use std::vec::Vec;

/// Products in halves: of rows and columns that fill whole tiles and panels, and others, on teams, and in place.
#[test]
fn halves_make_the_same_products() {
    let mut r = Random(0x57a5_5e40);
    let sizes = [
        (64, 64, 96, 48),
        (10, 32, 398, 48),
        (70, 96, 144, 48),
        (510, 64, 130, 32),
        (48, 128, 256, 32),
        (98, 64, 320, 32),
        // No kernel forms weights of panels as narrow as these.
        (64, 64, 64, 16),
    ];
    for (case, (m, k, cols, panel)) in sizes.into_iter().enumerate() {
        let row = RowAxis { extent: m, a: k as isize, out: cols, residual: cols };
        let rows = [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, row];
        let c = Contraction { rows, depth: k, cols, panel, ..Contraction::NEW };
        assert!(c.is_halved(), "case {case}");
        let fine = |values: Vec<f32>| values.into_iter().map(|x| x * 0.3 + 0.01).collect::<Vec<f32>>();
        let (a, w) = (fine(r.floats(m * k)), fine(r.floats(k * cols)));
        let (bias, residual) = (r.floats(cols), r.floats(m * cols));
        let packed = pack_all(&c, &w);
        let halve = |mut tile: Tile<'_>| tile.rows().for_each(|(_, row)| row.iter_mut().for_each(|x| *x *= 0.5));
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let epilogue = Epilogue {
                bias: Some(&bias),
                residual: Some(residual[..].src()),
                then: if case % 2 == 0 { Some(&halve) } else { None },
                ..Epilogue::NONE
            };
            let run = |cx: Cx<'_>, a: &[f32], from: &[f32], epilogue| {
                let (mut out, mut scratch) = (from.to_vec(), vec![f32::NAN; c.strassen_len()]);
                c.run_halves(cx, a.src(), &packed, &mut scratch, Dst::from_slice(&mut out), epilogue);
                out
            };
            let mut want = vec![7.0; m * cols];
            c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut want), epilogue);
            let out = run(cx, &a, &vec![f32::NAN; m * cols], epilogue);
            assert_eq!(
                want != out,
                cx.isa() == Isa::Avx512 && panel > 16,
                "other roundings, case {case} {:?}",
                cx.isa()
            );
            for (got, want) in out.iter().zip(&want) {
                assert!((got - want).abs() < 2e-6 * k as f32, "{got} {want} case {case} {:?}", cx.isa());
            }
            let (mut chosen, mut scratch) = (vec![f32::NAN; m * cols], vec![f32::NAN; c.strassen_len()]);
            c.run_strassen(cx, a.src(), &packed, &mut scratch, Dst::from_slice(&mut chosen), epilogue);
            let pays = cx.isa().is_halved();
            assert!(chosen == *if pays { &out } else { &want }, "where halves pay, case {case} {:?}", cx.isa());
            let update = Epilogue { residual: None, accumulate: true, ..epilogue };
            assert!(run(cx, &a, &residual, update) == out, "in place, case {case} {:?}", cx.isa());
            #[cfg(feature = "threads")]
            for threads in [2, 3] {
                let team = crate::team::Team::new(threads);
                let divided = run(cx.with_team(&team), &a, &want, epilogue);
                assert!(divided == out, "{threads} threads, case {case} {:?}", cx.isa());
            }
            // One row of a pair is far from the other, or infinite: plain sums of all rows of the block.
            let block = cols * c.halved_rows().min(m);
            for far in [1e-4, f32::INFINITY] {
                let a: Vec<f32> = a.iter().enumerate().map(|(i, x)| if i < k { x * far } else { *x }).collect();
                c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut want), epilogue);
                let out = run(cx, &a, &vec![f32::NAN; m * cols], epilogue);
                let bits = |all: &[f32]| all[..block].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert!(bits(&want) == bits(&out), "{far} case {case} {:?}", cx.isa());
            }
        }
    }
}

#[test]
fn halves_fill_tiles_and_can_be_divided() {
    let is_halved = |(m, k, cols, panel)| {
        let rows = [RowAxis { extent: m, ..RowAxis::ONE }, RowAxis::ONE, RowAxis::ONE, RowAxis::ONE];
        Contraction { rows, depth: k, cols, panel, ..Contraction::NEW }.is_halved()
    };
    // Odd rows or sums, one panel, tiles of six rows of twelve, three pairs for two threads, no columns, no panels.
    assert!([(64, 64, 384, 48), (100, 64, 288, 48), (24, 32, 256, 32)].into_iter().all(is_halved));
    assert!(![(63, 64, 384, 48), (64, 48, 384, 48), (64, 64, 95, 48), (26, 64, 256, 32)].into_iter().any(is_halved));
    assert!(
        ![(62, 64, 288, 48), (64, 64, 0, 48), (64, 64, 384, 0), (0, 64, 384, 48), (64, 0, 0, 0)]
            .into_iter()
            .any(is_halved)
    );
}

#[test]
fn kernels_form_weights_for_all_tiles_that_count_as_filled() {
    for (panel, most) in [(48, TILES[0]), (32, TILES[1])] {
        let sets = packed_kernels::of(Isa::Avx512, panel);
        if cfg!(all(feature = "vectors", target_arch = "x86_64")) {
            assert_eq!((sets[0].cols, sets[0].kernels.len(), sets[0].forming.len()), (panel, most, FEWER + 1));
        }
    }
}

/// The largest error, as a part of the largest result.
#[test]
fn errors_are_small_multiples_of_those_of_plain_sums() {
    let mut r = Random(0x0e44_0451);
    for k in [768, 3072] {
        let (m, cols) = (64, 192);
        let row = RowAxis { extent: m, a: k as isize, out: cols, residual: 0 };
        let rows = [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, row];
        let c = Contraction { rows, depth: k, cols, panel: 48, ..Contraction::NEW };
        let mut random =
            |n: usize| (0..n).map(|_| r.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0).collect::<Vec<_>>();
        let (a, w) = (random(m * k), random(k * cols));
        let packed = pack_all(&c, &w);
        let exact: Vec<f64> = (0..m * cols)
            .map(|i| (0..k).map(|j| f64::from(a[i / cols * k + j]) * f64::from(w[j * cols + i % cols])).sum())
            .collect();
        let largest = exact.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let error = |out: &[f32]| {
            out.iter().zip(&exact).fold(0.0f64, |most, (x, y)| most.max((f64::from(*x) - y).abs())) / largest
        };
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let (mut plain, mut halves) = (vec![0.0; m * cols], vec![0.0; m * cols]);
            let mut scratch = vec![0.0; c.strassen_len()];
            c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut plain), Epilogue::NONE);
            c.run_halves(cx, a[..].src(), &packed, &mut scratch, Dst::from_slice(&mut halves), Epilogue::NONE);
            let errors = [error(&plain), error(&halves)];
            std::println!("{k} products, {:?}: plain sums {:.1e}, halves {:.1e}", cx.isa(), errors[0], errors[1]);
            assert!(errors[1] < 4.0 * errors[0] && errors[1] < 1e-5, "{errors:?} {k} {:?}", cx.isa());
        }
    }
}
