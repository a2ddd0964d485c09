//! Teams of all sizes do every part once, alone, shared, nested and after sleep.
use super::*;
use crate::cx::Cx;
use std::sync::atomic::AtomicU32;
use std::vec;

/// Every part is done exactly once.
fn check(cx: Cx<'_>, parts: usize) {
    let counts: Vec<AtomicU32> = (0..parts).map(|_| AtomicU32::new(0)).collect();
    cx.split(parts, |range| {
        for part in range {
            counts[part].fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{parts} parts");
}

#[test]
fn every_part_is_done_once() {
    for threads in [1, 2, 3, 8, 33] {
        let team = Team::new(threads);
        assert_eq!(team.threads(), threads);
        let cx = Cx::detect().with_team(&team);
        for round in 0..200 {
            check(cx, round % 70);
        }
    }
    check(Cx::detect(), 17);
}

#[test]
fn what_workers_write_is_there_afterwards() {
    let team = Team::new(4);
    let cx = Cx::detect().with_team(&team);
    let mut values = vec![0u64; 1000];
    for round in 1..300u64 {
        let cells: Vec<Mutex<&mut [u64]>> = values.chunks_mut(100).map(Mutex::new).collect();
        cx.split(cells.len(), |parts| {
            for part in parts {
                cells[part].lock().unwrap().iter_mut().for_each(|value| *value += round);
            }
        });
    }
    assert!(values.iter().all(|value| *value == 299 * 300 / 2));
}

#[test]
fn workers_sleep_and_wake() {
    let team = Team::new(3);
    let cx = Cx::detect().with_team(&team);
    for _ in 0..5 {
        check(cx, 20);
        std::thread::sleep(PATIENCE * 3);
    }
    assert!(team.0.shared.asleep.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_team_serves_several_threads_and_nested_splits() {
    let team = Team::new(3);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let team = team.clone();
            scope.spawn(move || {
                let cx = Cx::detect().with_team(&team);
                for round in 0..200 {
                    check(cx, round % 40);
                    cx.split(3, |parts| parts.for_each(|_| check(cx, 5)));
                }
            });
        }
    });
}

#[test]
fn a_panic_ends_the_step_and_not_the_team() {
    let team = Team::new(2);
    let cx = Cx::detect().with_team(&team);
    let leader = std::thread::current().id();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cx.split(1000, |_| assert!(std::thread::current().id() != leader, "the leader's part"));
    }));
    // Workers may have been quicker and left the leader nothing.
    let _ = result;
    check(cx, 100);
}

#[test]
fn others_may_start_the_workers() {
    let team = Team::spawned_by(4, |worker| {
        std::thread::spawn(worker);
        true
    });
    assert_eq!(team.threads(), 4);
    check(Cx::detect().with_team(&team), 100);
    let nobody = Team::spawned_by(4, |_| false);
    assert_eq!(nobody.threads(), 1);
    check(Cx::detect().with_team(&nobody), 100);
}

/// Sizes that divide well and badly; the results of all teams are the same bits as alone.
#[test]
fn kernels_give_the_same_bits_on_every_team() {
    use crate::contraction::{Batch, Contraction, Epilogue, RowAxis, Tile, pack, packed_len};
    use crate::raw::{Dst, Src};
    use crate::window::{Divisor, Window};
    let value = |i: usize| ((i * 7919) % 1013) as f32 * 0.0037 - 1.8;
    let values = |n: usize| (0..n).map(value).collect::<Vec<f32>>();
    for (b, m, k, n) in [(1, 1, 700, 1000), (1, 49, 600, 130), (1, 500, 64, 20), (12, 64, 70, 64), (3, 241, 90, 33)] {
        let len = packed_len(n, k, 32);
        let mut c = Contraction { depth: k, cols: n, ..Contraction::NEW };
        c.batches[1] = Batch { extent: b, a: (m * k) as isize, w: len, out: m * n, residual: 0, bias: 0 };
        c.rows[3] = RowAxis { extent: m, a: k as isize, out: n, residual: 0 };
        let (a, mut w, old) = (values(b * m * k), vec![0.0; b * len], values(b * m * n));
        w.chunks_mut(len).for_each(|w| pack(n, k, 32, w, |k, n| value(k * 31 + n)));
        let mut window = Window { channels: n, ..Window::NEW };
        (window.rows, window.batches[1]) = (c.rows, Batch { extent: b, a: (m * n) as isize, ..c.batches[1] });
        (window.rows[3].a, window.batches[1].w) = (n as isize, 0);
        let halve = |mut tile: Tile<'_>| tile.rows().for_each(|(row, x)| x.iter_mut().for_each(|x| *x *= row as f32));
        let compute = |cx: Cx<'_>| {
            let (mut y, mut z) = (old.clone(), old.clone());
            let epilogue = Epilogue { accumulate: true, then: Some(&halve), ..Epilogue::NONE };
            c.run(cx, Src::from_slice(&a), &w, Dst::from_slice(&mut y), epilogue);
            window.average(cx, Src::from_slice(&old), Dst::from_slice(&mut z), Divisor::Fixed(3.0), Epilogue::NONE);
            y.iter().chain(&z).map(|x| x.to_bits()).collect::<Vec<u32>>()
        };
        for cx in crate::isa::Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let alone = compute(cx);
            assert!(alone[..b * m * n] != alone[b * m * n..]);
            for threads in [2, 3, 16] {
                let team = Team::new(threads);
                assert!(compute(cx.with_team(&team)) == alone, "{threads} {b} {m} {k} {n} {:?}", cx.isa());
            }
        }
    }
}

#[test]
fn shares_are_all_parts_in_order() {
    for threads in [1, 2, 3, 8] {
        let team = Team::new(threads);
        let shared = &team.0.shared;
        for parts in [0, 1, 2, 7, 8, 31, usize::MAX] {
            let shares: Vec<_> = (0..threads).map(|thread| shared.share(parts, thread)).collect();
            assert!(shares[0].start == 0 && shares[threads - 1].end == parts);
            assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
            let sizes = shares.iter().map(ExactSizeIterator::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{parts} {threads}");
        }
    }
}
