//! Intersection over union of boxes that are given by two corners.

/// A box: the corner with the smaller coordinates, then the one with the larger ones.
pub type Corners = [f32; 4];

/// The boxes of a tensor whose last dimension is 4.
#[inline]
pub fn corners(elements: &[f32]) -> &[Corners] {
    elements.as_chunks().0
}

/// Box `at`; an empty one if there is none.
#[inline(always)]
pub fn corner(boxes: &[Corners], at: usize) -> Corners {
    boxes.get(at).copied().unwrap_or_default()
}

/// The area of a box; `offset` is 1 where coordinates are those of whole pixels and the last ones belong to the box.
#[inline(always)]
pub fn area(b: Corners, offset: f32) -> f32 {
    (b[2] - b[0] + offset) * (b[3] - b[1] + offset)
}

/// Intersection over union; 0 for boxes without area.
#[inline(always)]
pub fn overlap(a: Corners, b: Corners, offset: f32) -> f32 {
    let (area_a, area_b) = (area(a, offset), area(b, offset));
    let width = (a[2].min(b[2]) - a[0].max(b[0]) + offset).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1]) + offset).max(0.0);
    let common = width * height;
    let quotient = common / (area_a + area_b - common);
    // Without a branch, so that several boxes are compared at once.
    if (area_a <= 0.0) | (area_b <= 0.0) { 0.0 } else { quotient }
}

/// Intersection over union of boxes that touch or overlap, else 0; `offset` does not join boxes that are less apart.
#[inline(always)]
pub fn overlap_touching(a: Corners, b: Corners, offset: f32) -> f32 {
    let (width, height) = (a[2].min(b[2]) - a[0].max(b[0]), a[3].min(b[3]) - a[1].max(b[1]));
    let touch = (width >= 0.0) & (height >= 0.0);
    let common = (width + offset) * (height + offset);
    let quotient = common / (area(a, offset) + area(b, offset) - common);
    if touch & (common > 0.0) { quotient } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_neighbours() {
        let whole = [0.0, 0.0, 2.0, 2.0];
        assert_eq!(overlap(whole, [0.0, 0.0, 1.0, 2.0], 0.0), 0.5);
        assert_eq!(overlap(whole, [2.0, 0.0, 4.0, 2.0], 0.0), 0.0);
        assert_eq!(overlap(whole, [1.0, 1.0, 1.0, 2.0], 0.0), 0.0);
        // Three by three pixels, and the last column of them.
        assert_eq!(overlap(whole, [2.0, 0.0, 2.0, 2.0], 1.0), 1.0 / 3.0);
        assert_eq!(overlap_touching(whole, [2.0, 0.0, 2.0, 2.0], 1.0), 1.0 / 3.0);
        assert_eq!(overlap(whole, [2.5, 0.0, 2.5, 2.0], 1.0), 0.5 * 3.0 / (9.0 + 3.0 - 1.5));
        assert_eq!(overlap_touching(whole, [2.5, 0.0, 2.5, 2.0], 1.0), 0.0);
        assert_eq!(overlap_touching(whole, [0.0, 0.0, 1.0, 2.0], 0.0), 0.5);
    }
}
