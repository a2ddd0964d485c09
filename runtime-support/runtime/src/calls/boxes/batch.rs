//! Several boxes, each compared with the same other ones.
use super::overlap::Corners;

/// Boxes that are compared at once.
pub const LANES: usize = 16;

/// Boxes, as a list of each coordinate, and their largest overlaps so far.
#[repr(align(64))]
pub struct Batch {
    corners: [[f32; LANES]; 4],
    overlaps: [f32; LANES],
}

impl Batch {
    /// Boxes of no size.
    #[inline]
    pub fn new() -> Self {
        Batch { corners: [[0.0; LANES]; 4], overlaps: [f32::NEG_INFINITY; LANES] }
    }

    /// Sets the box of a lane.
    #[inline]
    pub fn set(&mut self, lane: usize, corners: Corners) {
        for (list, coordinate) in self.corners.iter_mut().zip(corners) {
            if let Some(slot) = list.get_mut(lane) {
                *slot = coordinate;
            }
        }
    }

    /// Compares all boxes with another one.
    #[inline(always)]
    pub fn compare(&mut self, other: Corners, overlap: impl Fn(Corners, Corners) -> f32) {
        let [x0, y0, x1, y1] = &self.corners;
        for lane in 0..LANES {
            let common = overlap([x0[lane], y0[lane], x1[lane], y1[lane]], other);
            let largest = self.overlaps[lane];
            self.overlaps[lane] = if common > largest { common } else { largest };
        }
    }

    /// Whether some other box overlaps that of a lane by more than this.
    #[inline]
    pub fn exceeds(&self, lane: usize, limit: f32) -> bool {
        self.overlaps.get(lane).is_some_and(|overlap| *overlap > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::overlap::overlap;
    use super::*;

    #[test]
    fn lanes_keep_their_largest_overlap() {
        let boxes = |i: usize| [i as f32, 0.0, i as f32 + 4.0, 3.0];
        let mut batch = Batch::new();
        (0..LANES - 1).for_each(|lane| batch.set(lane, boxes(lane)));
        batch.compare(boxes(0), |a, b| overlap(a, b, 0.0));
        batch.compare([f32::NAN; 4], |a, b| overlap(a, b, 0.0));
        batch.compare(boxes(3), |a, b| overlap(a, b, 0.0));
        for lane in 0..LANES - 1 {
            let largest = [0, 3].map(|i| overlap(boxes(lane), boxes(i), 0.0)).into_iter().fold(0.0, f32::max);
            assert!(!batch.exceeds(lane, largest) && batch.exceeds(lane, largest - 1e-3), "{lane}");
        }
        assert!(!batch.exceeds(LANES - 1, 0.0));
    }
}
