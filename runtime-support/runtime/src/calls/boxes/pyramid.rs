//! Features of regions, each from the level of a pyramid of feature maps that fits its size.
use super::super::{Arguments, Operand};
use super::overlap::{Corners, corners};
use crate::blocks::{blocks, blocks_mut};
use crate::math;
use core::ops::Range;

/// Side of the regions that belong between two levels.
const CANONICAL_SIDE: f32 = 224.0;
/// The level above it.
const CANONICAL_LEVEL: f32 = 2.0;

/// Means over the cells of a grid in every region.
///
/// Inputs: regions (f32 `[regions, 4]`), feature maps of all levels (f32 `[1, channels, rows, columns]`). Integers: points
/// along each side of a cell (0: as many as the cell has pixels), 1 to count pixels from their centres. Numbers: pixels of
/// the image per pixel of every level. Output 0: f32 `[regions, channels, cells, cells]`, 0 for regions without area.
#[inline]
pub fn feature_pyramid(arguments: Arguments<'_>) {
    let (ratio, shift) = (arguments.size(0), if arguments.integer(1) != 0 { 0.5 } else { 0.0 });
    let Some((regions, levels)) = arguments.inputs.split_first() else { return };
    let Some(out) = arguments.outputs.first_mut() else { return };
    let (channels, side) = (out.dim(1), out.dim(2));
    let length = channels * side * side;
    for (region, out) in corners(regions.get()).iter().zip(blocks_mut(out.get::<f32>(), length)) {
        out.fill(0.0);
        let Some(level) = level(*region, levels.len()) else { continue };
        let (Some(map), Some(scale)) = (levels.get(level), arguments.floats.get(level)) else { continue };
        let [x0, y0, x1, y1] = region.map(|at| at / *scale - shift);
        let columns = Axis { start: x0, cell: (x1 - x0).max(1.0) / side as f32, ratio, size: map.dim(3) };
        let rows = Axis { start: y0, cell: (y1 - y0).max(1.0) / side as f32, ratio, size: map.dim(2) };
        for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
            let cell = row * side + column;
            for (i, j) in rows.near(row).flat_map(|i| columns.near(column).map(move |j| (i, j))) {
                if let (Some(y), Some(x)) = (rows.neighbours(row, i), columns.neighbours(column, j)) {
                    add(map, y, x, of_cell(out, cell, side * side));
                }
            }
            let count = rows.points() as f32 * columns.points() as f32;
            of_cell(out, cell, side * side).for_each(|mean| *mean /= count);
        }
    }
}

/// The elements of all channels that belong to a cell.
#[inline]
fn of_cell(out: &mut [f32], cell: usize, cells: usize) -> impl Iterator<Item = &mut f32> {
    blocks_mut(out, cells).filter_map(move |plane| plane.get_mut(cell))
}

/// The level of a region; none for one without area.
#[inline]
fn level(region: Corners, levels: usize) -> Option<usize> {
    let area = (region[2] - region[0]) * (region[3] - region[1]);
    let level = CANONICAL_LEVEL + math::log2(math::sqrt(area) / CANONICAL_SIDE + 1e-6);
    (area > 0.0).then(|| (math::floor(level).max(0.0) as usize).min(levels.saturating_sub(1)))
}

/// The cells of a region along one side of a feature map.
struct Axis {
    start: f32,
    cell: f32,
    ratio: usize,
    size: usize,
}

/// Two neighbouring pixels and the weights of their values.
type Neighbours = [(usize, f32); 2];

impl Axis {
    /// Number of points of a cell.
    #[inline]
    fn points(&self) -> usize {
        if self.ratio > 0 { self.ratio } else { (math::ceil(self.cell) as usize).max(1) }
    }

    #[inline]
    fn step(&self) -> f32 {
        self.cell / self.points() as f32
    }

    /// Where a cell starts.
    #[inline]
    fn corner(&self, cell: usize) -> f32 {
        self.start + cell as f32 * self.cell
    }

    /// The points of a cell that may lie on the feature map or up to one pixel outside.
    #[inline]
    fn near(&self, cell: usize) -> Range<usize> {
        let steps = |to: f32| (to - self.corner(cell)) / self.step();
        let (first, last) = (math::floor(steps(-1.0) - 1.5), math::ceil(steps(self.size as f32) + 1.5));
        first.max(0.0) as usize..(last.max(0.0) as usize).min(self.points())
    }

    /// The pixels around a point of a cell; none further than one pixel outside.
    #[inline]
    fn neighbours(&self, cell: usize, point: usize) -> Option<Neighbours> {
        let at = self.corner(cell) + (point as f32 + 0.5) * self.step();
        if !(at >= -1.0 && at <= self.size as f32) {
            return None;
        }
        let at = at.max(0.0).min(self.size.saturating_sub(1) as f32);
        let low = at as usize;
        let rest = at - low as f32;
        Some([(low, 1.0 - rest), ((low + 1).min(self.size.saturating_sub(1)), rest)])
    }
}

/// Adds the value at a point of every channel.
#[inline]
fn add<'a>(map: &Operand<'_>, y: Neighbours, x: Neighbours, out: impl Iterator<Item = &'a mut f32>) {
    let (rows, columns) = (map.dim(2), map.dim(3));
    for (plane, sum) in blocks(map.get::<f32>(), rows * columns).zip(out) {
        for ((row, high), (column, wide)) in y.into_iter().flat_map(|y| x.map(|x| (y, x))) {
            *sum += high * wide * plane.get(row * columns + column).copied().unwrap_or(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Target;
    use super::*;

    #[test]
    fn regions_go_to_the_level_of_their_size() {
        let side = |side: f32| level([10.0, 0.0, 10.0 + side, side], 4);
        assert_eq!([side(10.0), side(111.0), side(113.0), side(225.0)], [Some(0), Some(0), Some(1), Some(2)]);
        assert_eq!([side(449.0), side(9e9), side(0.0)], [Some(3), Some(3), None]);
        assert_eq!([level([5.0, 5.0, 1.0, 9.0], 4), level([f32::NAN; 4], 4)], [None, None]);
    }

    #[test]
    fn cells_are_means_of_interpolated_points() {
        let map: [f32; 18] = core::array::from_fn(|i| (i % 9 % 3) as f32 + if i < 9 { 0.0 } else { 100.0 });
        let regions = [0f32, 0.0, 16.0, 16.0, 0.0, 0.0, 0.0, 9.0];
        let mut out = [9f32; 16];
        feature_pyramid(Arguments {
            inputs: &[Operand::new(&regions, &[2, 4]), Operand::new(&map, &[1, 2, 3, 3])],
            outputs: &mut [Target::new(&mut out, &[2, 2, 2, 2])],
            integers: &[2, 0],
            floats: &[8.0],
            sizes: &mut [],
        });
        assert_eq!(out[..8], [0.5, 1.5, 0.5, 1.5, 100.5, 101.5, 100.5, 101.5]);
        assert_eq!(out[8..], [0.0; 8]);
    }

    #[test]
    fn only_points_on_the_map_are_looked_at() {
        let axis = Axis { start: -1e6, cell: 1e6, ratio: 0, size: 20 };
        let found = |cell: usize| axis.near(cell).filter(|point| axis.neighbours(cell, *point).is_some()).count();
        assert_eq!((found(0), found(1)), (1, 20));
        assert!(axis.near(0).len() + axis.near(1).len() < 40);
        assert_eq!(Axis { start: f32::NAN, cell: 1.0, ratio: 0, size: 20 }.near(0).len(), 0);
    }
}
