//! Boxes: how much they overlap, their order by score, and the suppression of those that overlap better ones.
mod candidates;
mod heap;
mod overlap;
mod rotated;
mod suppression;

pub use suppression::non_max_suppression;
