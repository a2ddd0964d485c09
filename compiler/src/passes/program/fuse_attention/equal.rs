//! Run-time sizes that a run must find equal: keys and values that were kept bring sizes of their own.

use crate::dim::{Atom, Dim, Variable};
use crate::program::Program;

/// Sizes of which others are made where all checks of a program hold.
///
/// The runtime compares them once more: where sizes that steps find are not equal, a step may run before the model fails.
pub(super) struct Equal(Vec<(Variable, Dim)>);

impl Equal {
    /// From the checks of a program.
    pub(super) fn of(program: &Program) -> Self {
        let mut equal = Equal(Vec::new());
        for (a, b) in &program.checks {
            if let Some((variable, value)) = solved(&(equal.written(a) - &equal.written(b))) {
                let last = Equal(vec![(variable, value)]);
                equal.0.iter_mut().for_each(|(_, value)| *value = last.written(value));
                equal.0.extend(last.0);
            }
        }
        equal
    }

    /// A size, written so that equal ones are the same expression.
    pub(super) fn written(&self, size: &Dim) -> Dim {
        size.substitute(&|atom| match atom {
            Atom::Variable(variable) => {
                self.0.iter().find(|(other, _)| other == variable).map(|(_, value)| value.clone())
            }
            _ => None,
        })
    }
}

/// The last size that can be computed from the others where an expression is 0, and its value.
fn solved(zero: &Dim) -> Option<(Variable, Dim)> {
    let alone = |(product, factor): &(Vec<Atom>, i64)| match product.as_slice() {
        [Atom::Variable(variable)] if factor.abs() == 1 => {
            let rest = zero.clone() - &(Dim::variable(*variable) * &Dim::constant(*factor));
            let value = rest * &Dim::constant(-factor);
            (!value.uses_any(&[*variable])).then_some((*variable, value))
        }
        _ => None,
    };
    zero.parts().0.iter().filter_map(alone).max_by_key(|(variable, _)| variable.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sizes_are_the_same_expression() {
        let size = |id| Dim::variable(Variable::new(id, 0, 9));
        let checks = vec![(size(0) + &size(1), size(2)), (size(3), size(1)), (size(2), size(0) + &size(4))];
        let equal = Equal::of(&Program { checks, ..Program::default() });
        let sum = size(0) + &size(1);
        for same in [size(2), size(0) + &size(3), size(0) + &size(4), sum.clone()] {
            assert_eq!(equal.written(&same), sum);
        }
        assert_eq!(equal.written(&size(5)), size(5));
    }
}
