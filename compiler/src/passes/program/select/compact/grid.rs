//! Numbers on a grid: whole multiples of a step, few of them.

use include_ir_runtime::__private::v1::Form;

/// Products of a sum that have one step, where not all have: what quantisers use.
const GROUPS: [usize; 3] = [128, 64, 32];
/// Steps from the least to the greatest code of a byte.
const MOST: i32 = 255;
/// How far, relative to it, a weight may be from its multiple: the last bit, which a product of code and step has rounded.
const NEAR: f64 = 1.0 / (1 << 23) as f64;

/// Weights as codes: `(code - zero) * scale`.
pub(super) struct Grid {
    pub form: Form,
    /// Products that have one step.
    pub group: usize,
    columns: usize,
    /// For every group and column.
    steps: Vec<Step>,
}

/// The step of some weights, and the least and the greatest multiple of it that they are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    scale: f32,
    least: i32,
    most: i32,
}

impl Step {
    /// Whether all weights are zero.
    fn is_zero(&self) -> bool {
        (self.least, self.most) == (0, 0)
    }
}

impl Grid {
    pub fn scale_and_zero(&self, group: usize, column: usize) -> (f32, f32) {
        self.steps.get(group * self.columns + column).map_or((0.0, 0.0), |step| (step.scale, -step.least as f32))
    }

    /// The code of a weight.
    pub fn code(&self, product: usize, column: usize, weight: f32) -> u16 {
        let step = self.steps.get(product / self.group * self.columns + column);
        step.map_or(0, |step| (nearest(f64::from(weight) / f64::from(step.scale)) - step.least) as u16)
    }
}

/// The grid of a matrix of so many products and columns: all products of a column have one step, or groups of them.
pub(super) fn find(products: usize, columns: usize, at: &dyn Fn(usize, usize) -> f32) -> Option<Grid> {
    let groups = GROUPS.into_iter().filter(|group| *group < products && products.is_multiple_of(*group));
    std::iter::once(products).chain(groups).find_map(|group| with_group(products, columns, group, at))
}

fn with_group(products: usize, columns: usize, group: usize, at: &dyn Fn(usize, usize) -> f32) -> Option<Grid> {
    let (mut steps, mut weights) = (Vec::new(), vec![0.0; group]);
    for first in (0..products).step_by(group.max(1)) {
        for column in 0..columns {
            for (i, weight) in weights.iter_mut().enumerate() {
                *weight = at(first + i, column);
            }
            steps.push(step_of(&weights)?);
        }
    }
    if steps.iter().all(Step::is_zero) {
        // Weights that nobody has set: the plain kernels are faster.
        return None;
    }
    let few = steps.iter().all(|step| step.most - step.least < 16);
    Some(Grid { form: if few { Form::Nibbles } else { Form::Bytes }, group, columns, steps })
}

/// The greatest step of which all weights are multiples, if these are few.
fn step_of(weights: &[f32]) -> Option<Step> {
    let mut greatest = 0.0f32;
    for weight in weights {
        if !weight.is_finite() {
            return None;
        }
        greatest = if weight.abs() > greatest { weight.abs() } else { greatest };
    }
    if greatest == 0.0 {
        return Some(Step { scale: 1.0, least: 0, most: 0 });
    }
    // The greatest is so many steps; all others are whole numbers of them.
    let (greatest, mut steps) = (f64::from(greatest), 1);
    for weight in weights {
        let parts = f64::from(weight.abs()) / greatest * f64::from(steps);
        if !is_whole(parts) {
            steps *= (2..=MOST / steps).find(|factor| is_whole(parts * f64::from(*factor)))?;
        }
    }
    let divisor = greatest / f64::from(steps);
    // The step that fits all of them best: each is off by its own rounding.
    let (mut products, mut squares) = (0.0, 0.0);
    for weight in weights {
        let multiple = f64::from(nearest(f64::from(*weight) / divisor));
        (products, squares) = (products + multiple * f64::from(*weight), squares + multiple * multiple);
    }
    let scale = (products / squares) as f32;
    let mut step = Step { scale, least: 0, most: 0 };
    for weight in weights {
        let (weight, scale) = (f64::from(*weight), f64::from(scale));
        let multiple = nearest(weight / scale);
        if (weight - f64::from(multiple) * scale).abs() > weight.abs() * NEAR {
            return None;
        }
        (step.least, step.most) = (step.least.min(multiple), step.most.max(multiple));
    }
    (step.most - step.least <= MOST).then_some(step)
}

/// Whether a number is an integer but for what a product of code and step has rounded, 255 times at most.
fn is_whole(x: f64) -> bool {
    let rest = x - f64::from(nearest(x));
    rest.abs() < 1.0 / 8192.0
}

/// The nearest integer.
fn nearest(x: f64) -> i32 {
    (if x < 0.0 { x - 0.5 } else { x + 0.5 }) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_a_step_are_found_whatever_rounds() {
        for scale in [0.0123f32, 1.0 / 3.0, 7.5e-4, 3.1e5] {
            for range in [-128..=127, 0..=255, -8..=7, 3..=5] {
                let weights: Vec<f32> = range.clone().map(|code| code as f32 * scale).collect();
                let step = step_of(&weights).expect("they are multiples");
                let multiples: Vec<i32> =
                    weights.iter().map(|w| nearest(f64::from(*w) / f64::from(step.scale))).collect();
                assert_eq!(multiples, range.collect::<Vec<_>>());
                assert!((step.scale - scale).abs() <= scale * 1e-7);
            }
        }
    }

    #[test]
    fn rounding_errors_do_not_add_up() {
        let mut code = 1u32;
        for column in 0..400 {
            let scale = 1e-4 + column as f32 * 3.1e-6;
            let weights: Vec<f32> = (0..300)
                .map(|_| {
                    code = code.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    ((code >> 24) as f32 - 128.0) * scale
                })
                .collect();
            let step = step_of(&weights).expect("they are multiples");
            assert!((step.scale - scale).abs() <= scale * 1e-7, "{step:?} {scale}");
        }
    }

    #[test]
    fn other_numbers_are_on_no_grid() {
        assert_eq!(step_of(&[0.1, 0.25, 0.7123, -0.3]), None);
        assert_eq!(step_of(&[1.0, 257.0]), None);
        assert_eq!(step_of(&[-200.0, 1.0, 100.0]), None);
        assert_eq!(step_of(&[1.0, f32::NAN]), None);
        assert_eq!(step_of(&[1.0, f32::INFINITY]), None);
        assert_eq!(step_of(&[0.0, 0.0]), Some(Step { scale: 1.0, least: 0, most: 0 }));
    }

    #[test]
    fn zeros_alone_are_no_codes() {
        assert!(find(64, 4, &|_, _| 0.0).is_none());
        // A column of zeros beside others is.
        assert!(find(64, 4, &|product, column| if column == 1 { 0.0 } else { (product % 7) as f32 }).is_some());
    }

    #[test]
    fn groups_have_steps_of_their_own() {
        let weight = |product: usize, column: usize| {
            let scale = 0.01 + (product / 64 * 3 + column) as f32 * 0.0037;
            ((product * 7 + column) % 16) as f32 * scale
        };
        let grid = find(256, 5, &weight).expect("they are on a grid");
        assert_eq!((grid.form, grid.group), (Form::Nibbles, 64));
        for (product, column) in [(0, 0), (63, 4), (64, 1), (255, 4)] {
            let (scale, zero) = grid.scale_and_zero(product / 64, column);
            let value = (f32::from(grid.code(product, column, weight(product, column))) - zero) * scale;
            assert!((value - weight(product, column)).abs() < 1e-6);
        }
    }
}
