//! Boxes from anchors and deltas.
use super::overlap::Corners;
use crate::math;

/// The anchor's centre moves by `delta[..2]` of its size, and its size grows by the factors `exp(delta[2..])`, whose
/// logarithms are at most `most`. `offset` is added to the anchor's size: 1 where its last pixel belongs to it.
#[inline]
pub fn centre_size(anchor: Corners, delta: [f32; 4], offset: f32, most: f32) -> Corners {
    let side = |low: f32, high: f32, shift: f32, growth: f32| {
        let size = high - low + offset;
        let centre = shift * size + (low + 0.5 * size);
        let half = 0.5 * (math::exp(growth.min(most)) * size);
        (centre - half, centre + half)
    };
    let (x0, x1) = side(anchor[0], anchor[2], delta[0], delta[2]);
    let (y0, y1) = side(anchor[1], anchor[3], delta[1], delta[3]);
    [x0, y0, x1, y1]
}

/// The box whose last pixel belongs to it, where `offset` is 1.
#[inline]
pub fn with_last_pixel([x0, y0, x1, y1]: Corners, offset: f32) -> Corners {
    [x0, y0, x1 - offset, y1 - offset]
}

/// The part of a box between 0 and the given width and height.
#[inline]
pub fn clip([x0, y0, x1, y1]: Corners, width: f32, height: f32) -> Corners {
    [x0.min(width).max(0.0), y0.min(height).max(0.0), x1.min(width).max(0.0), y1.min(height).max(0.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_move_and_grow_anchors() {
        let anchor = [1.0, 2.0, 3.0, 6.0];
        assert_eq!(centre_size(anchor, [0.0; 4], 0.0, 9.0), anchor);
        assert_eq!(centre_size(anchor, [0.5, -0.25, 0.0, 0.0], 0.0, 9.0), [2.0, 1.0, 4.0, 5.0]);
        let doubled = centre_size(anchor, [0.0, 0.0, 9.0, 0.0], 0.0, core::f32::consts::LN_2);
        assert!((doubled[0]).abs() < 1e-6 && (doubled[2] - 4.0).abs() < 1e-6, "{doubled:?}");
        let pixels = centre_size([0.0, 0.0, 3.0, 3.0], [0.0; 4], 1.0, 9.0);
        assert_eq!(with_last_pixel(pixels, 1.0), [0.0, 0.0, 3.0, 3.0]);
        assert_eq!(clip([-1.0, 1.0, 5.0, 2.0], 4.0, 1.5), [0.0, 1.0, 4.0, 1.5]);
    }
}
