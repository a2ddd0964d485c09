//! The selected boxes of all images as rows, the best of every image, in the order that is asked for.
use super::heap::{self, Entries};
use super::overlap::Corners;
use core::ops::Range;

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// Score, class, index.
    Score,
    /// Score, index, class.
    ScoreIndex,
    /// Class, score, index.
    Class,
    /// Score, present place.
    ScoreStable,
    /// Class, present place.
    ClassStable,
}

impl Order {
    #[inline]
    fn key(self, class: f32, score: f32, index: i64, place: i64) -> (f32, f32, i64, f32) {
        match self {
            Order::Score => (-score, class, index, 0.0),
            Order::ScoreIndex => (-score, 0.0, index, class),
            Order::Class => (class, -score, index, 0.0),
            Order::ScoreStable => (-score, 0.0, place, 0.0),
            Order::ClassStable => (class, 0.0, place, 0.0),
        }
    }
}

/// Rows of class, score and corners, and the index of every box.
pub struct Table<'a> {
    rows: &'a mut [[f32; 6]],
    indices: &'a mut [i64],
    places: &'a mut [i32],
    /// Which rows are the best ones.
    best: Order,
    order: Order,
    /// First row of the present image.
    start: usize,
    /// Number of its rows.
    count: usize,
}

/// A row apart from its table.
#[derive(Clone, Copy)]
pub struct Row {
    values: [f32; 6],
    index: i64,
    place: i32,
}

impl Entries for Table<'_> {
    type Entry = Row;

    #[inline]
    fn get(&self, at: usize) -> Option<Row> {
        let at = self.start + at;
        let (values, index) = (*self.rows.get(at)?, *self.indices.get(at)?);
        Some(Row { values, index, place: self.places.get(at).copied().unwrap_or(0) })
    }

    #[inline]
    fn set(&mut self, at: usize, row: Row) {
        let at = self.start + at;
        if let (Some(values), Some(index)) = (self.rows.get_mut(at), self.indices.get_mut(at)) {
            (*values, *index) = (row.values, row.index);
        }
        if let Some(place) = self.places.get_mut(at) {
            *place = row.place;
        }
    }

    #[inline]
    fn before(&self, a: Row, b: Row) -> bool {
        let key = |row: Row| self.order.key(row.values[0], row.values[1], row.index, i64::from(row.place));
        key(a) < key(b)
    }
}

impl<'a> Table<'a> {
    /// Room for as many rows as all slices have.
    #[inline]
    pub fn new(rows: &'a mut [f32], indices: &'a mut [i64], places: &'a mut [i32]) -> Self {
        Table {
            rows: rows.as_chunks_mut().0,
            indices,
            places,
            best: Order::Score,
            order: Order::Score,
            start: 0,
            count: 0,
        }
    }

    /// Of equal scores, the smaller index is better whatever the class.
    #[inline]
    pub fn with_ties_by_index(self) -> Self {
        Table { best: Order::ScoreIndex, order: Order::ScoreIndex, ..self }
    }

    /// Adds a box to the present image, which keeps its best `most`.
    #[inline]
    pub fn offer(&mut self, most: usize, class: usize, score: f32, corners: Corners, index: i64) {
        let [a, b, c, d] = corners;
        let row = Row { values: [class as f32, score, a, b, c, d], index, place: 0 };
        if self.count < most {
            if self.start + self.count < self.rows.len().min(self.indices.len()) {
                self.set(self.count, row);
                self.count += 1;
            }
            if self.count == most {
                heap::build(self, self.count, true);
            }
        } else if self.get(0).is_some_and(|worst| self.count > 0 && self.before(row, worst)) {
            heap::sink(self, (0, row), self.count, true);
        }
    }

    /// Sorts the present image by score or by class, and starts the next one. How many rows it has.
    #[inline]
    pub fn finish_image(&mut self, by_class: bool) -> usize {
        self.order = if by_class { Order::Class } else { self.best };
        let count = self.count;
        heap::sort(self, count);
        self.order = self.best;
        self.start += count;
        self.count = 0;
        count
    }

    /// Sorts all rows by score or by class; equal ones keep their order.
    #[inline]
    pub fn sort_all(&mut self, by_class: bool) {
        self.order = if by_class { Order::ClassStable } else { Order::ScoreStable };
        self.places.iter_mut().zip(0..).for_each(|(place, at)| *place = at);
        let count = core::mem::take(&mut self.start);
        heap::sort(self, count);
        self.start = count;
    }

    /// Some rows of finished images.
    #[inline]
    pub fn rows(&self, range: Range<usize>) -> &[[f32; 6]] {
        self.rows.get(range).unwrap_or(&[])
    }

    /// Number of rows of all finished images.
    #[inline]
    pub fn len(&self) -> usize {
        self.start
    }
}
