//! Boxes: how much they overlap, their order by score, and the suppression of those that overlap better ones.
mod candidates;
mod heap;
mod many_classes;
mod overlap;
mod rotated;
mod suppression;
mod table;

pub use many_classes::{matrix_nms, multiclass_nms};
pub use suppression::non_max_suppression;

/// A limit: nothing where it is negative, and no limit where it does not fit.
fn limit(number: i64) -> usize {
    usize::try_from(number.max(0)).unwrap_or(usize::MAX)
}
