//! Boxes: how much they overlap, their order by score, and the suppression of those that overlap better ones.
mod batch;
mod candidates;
mod decode;
mod detection_output;
mod detectron;
mod heap;
mod many_classes;
mod overlap;
mod proposals;
mod rotated;
mod suppression;
mod table;

pub use detection_output::detection_output;
pub use detectron::detectron_detection_output;
pub use many_classes::{matrix_nms, multiclass_nms};
pub use proposals::{generate_proposals, proposal};
pub use suppression::non_max_suppression;

/// A limit: nothing where it is negative, and no limit where it does not fit.
#[inline]
fn limit(number: i64) -> usize {
    usize::try_from(number.max(0)).unwrap_or(usize::MAX)
}
