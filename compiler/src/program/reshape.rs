//! Views under other dimensions: where a reshape needs no copy.

use super::Layout;
use crate::dim::Dim;

/// The layout of `to` dimensions over the memory of a buffer with `from` dimensions, if its elements, read in row-major
/// order, can be addressed so.
pub fn view(layout: &Layout, from: &[Dim], to: &[Dim]) -> Option<Layout> {
    let one = Dim::constant(1);
    let source: Vec<(&Dim, &Dim)> = from.iter().zip(&layout.strides).filter(|(dim, _)| !dim.is(1)).collect();
    let wanted: Vec<usize> = (0..to.len()).filter(|i| !to[*i].is(1)).collect();
    let mut strides = vec![Dim::constant(1); to.len()];
    let (mut i, mut j) = (source.len(), wanted.len());
    while i > 0 || j > 0 {
        // The shortest group of last dimensions on both sides that has the same number of elements.
        let (end_i, end_j) = (i, j);
        let (mut inside, mut outside) = (one.clone(), one.clone());
        loop {
            let difference = (inside.clone() - &outside).range();
            let started = i < end_i || j < end_j;
            if started && inside == outside {
                break;
            }
            if i > 0 && (!started || difference.max <= 0) {
                i -= 1;
                inside = inside * source[i].0;
            } else if j > 0 && (!started || difference.min >= 0) {
                j -= 1;
                outside = outside * &to[wanted[j]];
            } else {
                return None;
            }
        }
        let group = &source[i..end_i];
        let adjacent = group.windows(2).all(|pair| *pair[0].1 == pair[1].1.clone() * pair[1].0);
        if !adjacent || group.is_empty() {
            return None;
        }
        let mut stride = group.last().map_or(one.clone(), |(_, stride)| (*stride).clone());
        for k in (j..end_j).rev() {
            strides[wanted[k]] = stride.clone();
            stride = stride * &to[wanted[k]];
        }
    }
    Some(Layout { storage: layout.storage, offset: layout.offset.clone(), strides })
}

#[cfg(test)]
mod tests {
    use super::super::BufferId;
    use super::*;

    fn dims(values: &[i64]) -> Vec<Dim> {
        values.iter().map(|v| Dim::constant(*v)).collect()
    }

    fn strides(from: &[i64], order: &[usize], to: &[i64]) -> Option<Vec<i64>> {
        let layout = Layout::ordered(BufferId(0), &dims(from), order);
        let view = view(&layout, &dims(from), &dims(to))?;
        view.strides.iter().map(Dim::as_const).collect()
    }

    #[test]
    fn merging_needs_adjacent_memory() {
        assert_eq!(strides(&[2, 3, 4], &[0, 1, 2], &[6, 4]), Some(vec![4, 1]));
        assert_eq!(strides(&[2, 3, 4], &[0, 1, 2], &[2, 2, 6]), Some(vec![12, 6, 1]));
        assert_eq!(strides(&[2, 3, 4], &[0, 2, 1], &[2, 12]), None);
        assert_eq!(strides(&[2, 3, 4], &[2, 0, 1], &[6, 4]), Some(vec![1, 6]));
    }

    #[test]
    fn dimensions_of_one_element_do_not_matter() {
        assert_eq!(strides(&[1, 8, 1, 1], &[0, 2, 3, 1], &[1, 8]), Some(vec![1, 1]));
        assert_eq!(strides(&[8], &[0], &[1, 2, 4]), Some(vec![1, 4, 1]));
    }

    #[test]
    fn run_time_sizes_are_kept_apart() {
        let n = Dim::variable(crate::dim::Variable::new(0, 1, 8));
        let from = [n.clone(), Dim::constant(12)];
        let to = [n, Dim::constant(3), Dim::constant(4)];
        let layout = Layout::row_major(BufferId(0), &from);
        let view = view(&layout, &from, &to).map(|v| v.strides);
        assert_eq!(view, Some(dims(&[12, 4, 1])));
    }
}
