//! Time in a sequence: which position an iteration reads and writes, and which rows still have one.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::program::BufferId;
use crate::program::builder::NestBuilder;
use crate::program::nest::{Binary, Const, Node};

/// In which direction the positions are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
    /// Both, side by side.
    Bidirectional,
}

impl Direction {
    /// Number of directions.
    pub fn count(self) -> i64 {
        if self == Direction::Bidirectional { 2 } else { 1 }
    }
}

/// The present iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time<'a> {
    pub direction: Direction,
    /// Positions of the longest row.
    pub steps: &'a Dim,
    /// Positions of every row, from 0 to `steps`; `None`: all rows have all positions.
    pub lengths: Option<BufferId>,
    /// The number of the iteration.
    pub iteration: &'a Dim,
}

impl Time<'_> {
    fn length(&self, n: &mut NestBuilder, batch: &Dim) -> Result<Node, Diagnostic> {
        match self.lengths {
            Some(lengths) => n.load(lengths, std::slice::from_ref(batch)),
            None => Ok(n.index(self.steps)),
        }
    }

    /// Whether the row has a position in this iteration; `None`: always.
    pub fn is_inside(&self, n: &mut NestBuilder, batch: &Dim) -> Result<Option<Node>, Diagnostic> {
        if self.lengths.is_none() {
            return Ok(None);
        }
        let (iteration, length) = (n.index(self.iteration), self.length(n, batch)?);
        Ok(Some(n.binary(Binary::Lt, iteration, length)))
    }

    /// The position that belongs to this iteration: the reverse direction starts at the last position of the row.
    /// Positions behind the end of a row keep their place, so that every position is visited once.
    pub fn position(&self, n: &mut NestBuilder, batch: &Dim, direction: &Dim) -> Result<Dim, Diagnostic> {
        match (self.direction, self.lengths) {
            (Direction::Forward, _) => return Ok(self.iteration.clone()),
            (Direction::Reverse, None) => return Ok(self.steps.clone() - 1 - self.iteration),
            _ => {}
        }
        let forward = n.index(self.iteration);
        let (length, one) = (self.length(n, batch)?, n.constant(Const::I64(1)));
        let rest = n.binary(Binary::Sub, length, forward);
        let mut position = n.binary(Binary::Sub, rest, one);
        if let Some(inside) = self.is_inside(n, batch)? {
            position = n.select(inside, position, forward);
        }
        if self.direction == Direction::Bidirectional {
            let (direction, zero) = (n.index(direction), n.constant(Const::I64(0)));
            let first = n.binary(Binary::Eq, direction, zero);
            position = n.select(first, forward, position);
        }
        Ok(n.as_index(position))
    }
}
