//! Regions and views: what they alias, and what happens at their edges.
use super::*;
use crate::view::{View, ViewMut, ViewRow, ViewRowMut};

#[test]
fn regions_share_one_memory() {
    let mut arena = Arena::<256>::new();
    let (x, y) = arena.get::<(W<[f32; 4], 0>, W<[[i16; 2]; 3], 64>)>();
    assert_eq!((*x, *y), ([0.0; 4], [[0; 2]; 3]));
    *x = [1.0, 2.0, 3.0, 4.0];
    y[2][1] = -5;
    let (bits, y) = arena.get::<(R<[u32; 4], 0>, R<[i16; 6], 64>)>();
    assert_eq!((bits[0], y[5]), (1.0f32.to_bits(), -5));
    assert_eq!(core::mem::align_of_val(&arena), 64);
}

#[test]
fn columns_of_one_buffer_interleave() {
    let mut arena = Arena::<256>::new();
    let (mut left, mut right) = arena.get::<(WS<f32, 3, 8, 4, 0>, WS<f32, 5, 8, 4, 12>)>();
    for (i, row) in left.iter_mut().enumerate() {
        *row = [i as f32; 3];
    }
    for i in 0..32 {
        right.put(i, 10.0 + i as f32);
    }
    let (all,) = arena.get::<(R<[f32; 32], 0>,)>();
    for row in 0..4 {
        for column in 0..8 {
            let want = if column < 3 { row as f32 } else { 10.0 + (row * 8 + column - 3) as f32 };
            assert_eq!(all[row * 8 + column], want, "{row} {column}");
        }
    }
}

#[test]
fn columns_interleave_wherever_the_buffer_starts() {
    let mut arena = Arena::<256>::new();
    // The first column starts 20 bytes into the pitch of 32 that the arena would have.
    let (mut left, mut right) = arena.get::<(WS<f32, 3, 8, 4, 20>, WS<f32, 5, 8, 4, 32>)>();
    left.put(2, 1.0);
    right.put(0, 2.0);
    let (all,) = arena.get::<(R<[f32; 8], 20>,)>();
    assert_eq!(&all[2..4], &[1.0, 2.0]);
    let span = |off, row| Span { off, row, stride: 32, rows: 4, align: 4, write: true };
    for first in [0, 20, 64] {
        assert!(span(first, 12).disjoint(&span(first + 12, 20)) && span(first + 12, 20).disjoint(&span(first, 12)));
        assert!(!span(first, 16).disjoint(&span(first + 12, 20)) && !span(first, 12).disjoint(&span(first + 12, 24)));
    }
}

#[test]
fn views_clip_instead_of_panicking() {
    let mut arena = Arena::<128>::new();
    let (mut y,) = arena.get::<(WS<f32, 3, 8, 4, 0>,)>();
    y.put(8, 1.5);
    y.put(3, 9.0);
    y.put(usize::MAX, 9.0);
    assert_eq!((y.at(8), y.at(3), y.at(32), y.at(usize::MAX)), (1.5, 0.0, 0.0, 0.0));
    assert_eq!(
        (y.span(8, 99), y.span(9, 1), y.span(3, 1), y.span(40, 1)),
        (&[1.5, 0.0, 0.0][..], &[0.0][..], &[][..], &[][..])
    );
    assert_eq!((y.row::<3>(8), y.row::<2>(9), y.row::<3>(1000)), (&[1.5, 0.0, 0.0], &[0.0; 2], &[0.0; 3]));
    y.row_mut::<2>(25)[1] = 7.0;
    y.span_mut(0, 2)[1] = 3.0;
    assert_eq!((y.at(26), y.at(1), y.span_mut(99, 4).len()), (7.0, 3.0, 0));
    assert_eq!(y.as_rows().iter().map(|r| r[2]).sum::<f32>(), 7.0);
    assert_eq!(y.dst().extent(), crate::raw::Extent { row: 3, stride: 8, rows: 4 });

    let mut a = [1i32, 2, 3];
    a.put(5, 9);
    assert_eq!((a.at(2), a.at(3), a.span(1, 9), a.row::<2>(7), a.src().extent().row), (3, 0, &[2, 3][..], &[2, 3], 3));
    a.row_mut::<1>(0)[0] = 4;
    let slice: &mut [i32] = &mut a;
    slice.put(1, 8);
    assert_eq!((slice.at(0), slice.at(1), slice.at(9), slice.span_mut(2, 5).len()), (4, 8, 0, 1));
}
