//! Intersection over union of boxes that are rotated about their centres.
use crate::math::{cos, sin};

/// Centre, width, height, and the angle in radians by which the x axis turns towards the y axis.
pub type Rotated = [f32; 5];

/// Corners of a polygon. Clipping four corners at four lines leaves at most eight.
#[derive(Default)]
struct Polygon {
    corners: [(f32, f32); 8],
    count: usize,
}

impl Polygon {
    #[inline]
    fn push(&mut self, corner: (f32, f32)) {
        if let Some(slot) = self.corners.get_mut(self.count) {
            *slot = corner;
            self.count += 1;
        }
    }

    #[inline]
    fn corners(&self) -> &[(f32, f32)] {
        self.corners.get(..self.count).unwrap_or(&[])
    }

    /// Every corner with the next one.
    #[inline]
    fn edges(&self) -> impl Iterator<Item = ((f32, f32), (f32, f32))> {
        let corners = self.corners();
        corners.iter().copied().zip(corners.iter().copied().cycle().skip(1))
    }

    /// The part where `inside` is not negative; it is a linear function.
    #[inline]
    fn clip(&self, inside: impl Fn((f32, f32)) -> f32) -> Polygon {
        let mut part = Polygon::default();
        for (from, to) in self.edges() {
            let (a, b) = (inside(from), inside(to));
            if a >= 0.0 {
                part.push(from);
            }
            if (a >= 0.0) != (b >= 0.0) {
                let t = a / (a - b);
                part.push((from.0 + t * (to.0 - from.0), from.1 + t * (to.1 - from.1)));
            }
        }
        part
    }

    #[inline]
    fn area(&self) -> f32 {
        let twice: f32 = self.edges().map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum();
        0.5 * twice.abs()
    }
}

/// Intersection over union; 0 for boxes without area.
#[inline]
pub fn overlap(a: Rotated, b: Rotated) -> f32 {
    let (area_a, area_b) = (a[2] * a[3], b[2] * b[3]);
    if area_a <= 0.0 || area_b <= 0.0 {
        return 0.0;
    }
    let common = intersection(a, b);
    common / (area_a + area_b - common)
}

/// The area that two boxes share: the corners of `a` in the frame of `b`, clipped at the sides of `b`.
#[inline]
fn intersection(a: Rotated, b: Rotated) -> f32 {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    let reach = (a[2].abs() + a[3].abs() + b[2].abs() + b[3].abs()) * 0.5;
    if dx * dx + dy * dy > reach * reach {
        return 0.0;
    }
    let (sin_b, cos_b) = (sin(b[4]), cos(b[4]));
    let centre = (dx * cos_b + dy * sin_b, dy * cos_b - dx * sin_b);
    let (turned_sin, turned_cos) = (sin(a[4] - b[4]), cos(a[4] - b[4]));
    let mut polygon = Polygon::default();
    for (x, y) in [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)] {
        let (x, y) = (x * a[2], y * a[3]);
        polygon.push((centre.0 + x * turned_cos - y * turned_sin, centre.1 + x * turned_sin + y * turned_cos));
    }
    let (half_width, half_height) = (b[2].abs() * 0.5, b[3].abs() * 0.5);
    polygon
        .clip(|p| half_width - p.0)
        .clip(|p| half_width + p.0)
        .clip(|p| half_height - p.1)
        .clip(|p| half_height + p.1)
        .area()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::f32::consts::FRAC_PI_4;

    fn close(a: f32, b: f32) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }

    #[test]
    fn known_overlaps() {
        let square = [1.0, 1.0, 2.0, 2.0, 0.0];
        close(overlap(square, square), 1.0);
        close(overlap(square, [2.0, 1.0, 2.0, 2.0, 0.0]), 1.0 / 3.0);
        close(overlap(square, [1.0, 1.0, 2.0, 2.0, 2.0 * FRAC_PI_4]), 1.0);
        close(overlap(square, [9.0, 1.0, 2.0, 2.0, 0.3]), 0.0);
        close(overlap(square, [1.0, 1.0, 0.0, 2.0, 0.3]), 0.0);
        // A square turned by 45 degrees leaves a regular octagon.
        let octagon = 8.0 * (2.0f32.sqrt() - 1.0);
        close(overlap(square, [1.0, 1.0, 2.0, 2.0, FRAC_PI_4]), octagon / (8.0 - octagon));
    }

    #[test]
    fn the_angle_turns_x_towards_y() {
        let long = [0.0, 0.0, 10.0, 1.0, FRAC_PI_4];
        assert!(overlap(long, [3.0, 3.0, 1.0, 1.0, 0.0]) > 0.05);
        close(overlap(long, [3.0, -3.0, 1.0, 1.0, 0.0]), 0.0);
    }
}
