//! Scattering: where updates go, and what becomes of several that go to one place.
use super::{Arguments, Element, Elements, Target};
use crate::blocks::{blocks, blocks_mut};

/// For every place, the last update that goes there: output 0 (i32), -1 where there is none. Input 0 (i64) holds the place of
/// every update; places outside count as none.
#[inline]
pub fn last_writers(arguments: Arguments<'_>) {
    let places = arguments.input(0).get::<i64>();
    let Some(out) = arguments.outputs.first_mut() else { return };
    let winners = out.get::<i32>();
    winners.fill(-1);
    for (update, place) in places.iter().enumerate() {
        if let Some(slot) = usize::try_from(*place).ok().and_then(|place| winners.get_mut(place)) {
            *slot = update as i32;
        }
    }
}

/// How several values at one place combine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Sum,
    Sub,
    Prod,
    Min,
    Max,
    Mean,
}

/// Combines updates with what they meet: output 0 is input 0 (the data) with input 2 (updates, in blocks) applied at the
/// places of input 1 (i64); a place is a block of elements, and places outside count as none.
///
/// Integers: elements of one block; reduction (0 sum, 1 difference, 2 product, 3 minimum, 4 maximum, 5 mean, rounded to minus
/// infinity for integers); 1 to combine with the data, 0 to replace it by the combined updates. Output 1 (i32) is working
/// memory: one element per place.
#[inline]
pub fn scatter_reduce(mut arguments: Arguments<'_>) {
    match (arguments.input(0).elements, arguments.input(2).elements) {
        (Elements::F32(data), Elements::F32(updates)) => scatter_of(data, updates, &mut arguments),
        (Elements::F64(data), Elements::F64(updates)) => scatter_of(data, updates, &mut arguments),
        (Elements::I32(data), Elements::I32(updates)) => scatter_of(data, updates, &mut arguments),
        (Elements::I64(data), Elements::I64(updates)) => scatter_of(data, updates, &mut arguments),
        _ => {}
    }
}

/// Arithmetic of the reductions; integers wrap.
trait Number: Element + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, count: i32) -> Self;
}

macro_rules! integer {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn over(self, count: i32) -> Self {
                self.checked_div_euclid(<$ty>::from(count)).unwrap_or(0)
            }
        }
    )*};
}
macro_rules! float {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline]
            fn over(self, count: i32) -> Self {
                self / count as $ty
            }
        }
    )*};
}
integer!(i32, i64);
float!(f32, f64);

/// Combines a row with what is at its place; `first` where nothing is.
fn combine<T: Number>(reduction: Reduction, first: bool, slots: &mut [T], row: &[T]) {
    match reduction {
        Reduction::Sub if first => each(slots, row, |_, new| new.minus(new).minus(new)),
        _ if first => each(slots, row, |_, new| new),
        Reduction::Sum | Reduction::Mean => each(slots, row, T::plus),
        Reduction::Sub => each(slots, row, T::minus),
        Reduction::Prod => each(slots, row, T::times),
        Reduction::Min => each(slots, row, |old, new| if new < old { new } else { old }),
        Reduction::Max => each(slots, row, |old, new| if new > old { new } else { old }),
    }
}

#[inline]
fn each<T: Copy>(slots: &mut [T], row: &[T], function: impl Fn(T, T) -> T) {
    slots.iter_mut().zip(row).for_each(|(slot, value)| *slot = function(*slot, *value));
}

fn scatter_of<T: Number>(data: &[T], updates: &[T], arguments: &mut Arguments<'_>) {
    let block = arguments.size(0).max(1);
    let reduction = match arguments.integer(1) {
        0 => Reduction::Sum,
        1 => Reduction::Sub,
        2 => Reduction::Prod,
        3 => Reduction::Min,
        4 => Reduction::Max,
        _ => Reduction::Mean,
    };
    let keep = arguments.integer(2) != 0;
    let places = arguments.input(1).get::<i64>();
    let [out, counts, ..] = &mut *arguments.outputs else { return };
    let (out, counts): (&mut [T], &mut [i32]) = (Target::get(out), Target::get(counts));
    out.iter_mut().zip(data).for_each(|(out, data)| *out = *data);
    counts.fill(i32::from(keep));
    for (place, update) in places.iter().zip(blocks(updates, block)) {
        let Some(at) = usize::try_from(*place).ok() else { continue };
        let Some(count) = counts.get_mut(at) else { continue };
        let Some(slots) = at.checked_mul(block).and_then(|start| out.get_mut(start..)) else { continue };
        combine(reduction, *count == 0, slots, update);
        *count = count.saturating_add(1);
    }
    if reduction == Reduction::Mean {
        for (slots, count) in blocks_mut(out, block).zip(&*counts) {
            if *count > 1 {
                slots.iter_mut().for_each(|slot| *slot = slot.over(*count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operand;
    use super::*;

    #[test]
    fn the_last_update_wins() {
        let mut winners = [7i32; 4];
        last_writers(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[Operand::new(&[2i64, 0, 2, 9, -1], &[5])],
            outputs: &mut [Target::new(&mut winners, &[4])],
            integers: &[],
            floats: &[],
            sizes: &mut [],
        });
        assert_eq!(winners, [1, -1, 2, -1]);
    }

    #[test]
    fn reductions_combine_all_updates_of_a_place() {
        let run = |reduction: i64, keep: i64| {
            let (mut out, mut counts) = ([0i32; 3], [0i32; 3]);
            scatter_reduce(Arguments {
                cx: crate::cx::Cx::detect(),
                inputs: &[
                    Operand::new(&[10i32, 20, 30], &[3]),
                    Operand::new(&[0i64, 0, 2], &[3]),
                    Operand::new(&[-5i32, -4, 40], &[3]),
                ],
                outputs: &mut [Target::new(&mut out, &[3]), Target::new(&mut counts, &[3])],
                integers: &[1, reduction, keep],
                floats: &[],
                sizes: &mut [],
            });
            out
        };
        assert_eq!(run(0, 1), [1, 20, 70]);
        assert_eq!(run(0, 0), [-9, 20, 40]);
        assert_eq!(run(1, 1), [19, 20, -10]);
        assert_eq!(run(2, 1), [200, 20, 1200]);
        assert_eq!(run(3, 1), [-5, 20, 30]);
        assert_eq!(run(4, 0), [-4, 20, 40]);
        assert_eq!(run(5, 0), [-5, 20, 40]);
        assert_eq!(run(5, 1), [0, 20, 35]);
    }
}
