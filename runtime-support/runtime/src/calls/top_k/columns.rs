//! The largest elements of several columns at once.
use super::super::rank::Key;
use super::few::{self, LANES, Line, Lines};
use super::many::MOST;
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::parts::{Apart, split_all};
use crate::simd::Simd;

/// The positions of the `k` best elements, at most [`MOST`], of every column of blocks with `count` lines of `inner` elements:
/// lines of `out`; the elements there, too, if there is room for them. False if there may be NaN among the elements, of which
/// this knows no order.
#[inline]
pub fn select<K: Key>(
    cx: Cx<'_>,
    x: &[K],
    (out, values): (&mut [i32], &mut [K]),
    [count, inner, k]: [usize; 3],
    flags: [bool; 2],
) -> bool {
    let groups = ceil_div_usize(inner, LANES);
    let all = floor_div_usize(out.len(), k.saturating_mul(inner)).saturating_mul(groups);
    let parts = cx.parts(x.len().saturating_mul(k), few::WORK).min(all).max(1);
    let looked_up = !values.is_empty();
    let (out, values) = (Apart::new(out), Apart::new(values));
    split_all(cx, all, parts, |range| {
        let mut best = [Line::all(0); MOST];
        let Some(best) = best.get_mut(..k) else { return false };
        for group in range {
            let (block, group) = (floor_div_usize(group, groups), floor_mod_usize(group, groups));
            // The last columns are selected again rather than fewer of them at once.
            let width = inner.min(LANES);
            let (from, start) = (group * LANES, (group * LANES).min(inner - width));
            let x = x.get(block * count * inner..).and_then(|x| x.get(..count * inner)).unwrap_or_default();
            let columns = Columns { x: x.get(start..).unwrap_or_default(), inner, width, smallest: flags[0] };
            if !few::select(cx, columns, best, flags[1]) {
                return false;
            }
            let mut at = block * k * inner + from;
            for places in &*best {
                let places = places.0.get(from - start..width).unwrap_or_default();
                // SAFETY: no other group has these columns.
                unsafe { out.put(at, places) };
                if looked_up {
                    let elements = columns.elements(places, from - start);
                    // SAFETY: as before.
                    unsafe { values.put(at, elements.get(..places.len()).unwrap_or_default()) };
                }
                at += inner;
            }
        }
        true
    })
}

#[derive(Clone, Copy)]
struct Columns<'a, K> {
    x: &'a [K],
    /// From one element of a column to the next.
    inner: usize,
    /// Number of columns.
    width: usize,
    smallest: bool,
}

impl<K: Key> Columns<'_, K> {
    /// The elements at these places of columns from `first` on.
    #[inline]
    fn elements(&self, places: &[i32], first: usize) -> [K; LANES] {
        let mut elements = [K::ZERO; LANES];
        for (i, (slot, place)) in elements.iter_mut().zip(places).enumerate() {
            *slot = self.x.get(*place as usize * self.inner + first + i).copied().unwrap_or(K::ZERO);
        }
        elements
    }
}

impl<K: Key> Lines for Columns<'_, K> {
    const RANGE: [i32; 2] = K::RANGE;

    #[inline(always)]
    fn next<S: Simd>(&mut self, s: S, first: usize) -> Option<S::I32> {
        let rest = self.x.get(self.inner..).unwrap_or_default();
        let x = core::mem::replace(&mut self.x, rest);
        if self.width < LANES {
            // The other columns are zeros.
            let mut line = [K::ZERO; LANES];
            let width = self.width.min(x.len());
            line.iter_mut().zip(x.get(..width).filter(|x| !x.is_empty())?).for_each(|(slot, x)| *slot = *x);
            return few::keys(s, &line, first, self.smallest);
        }
        let line = x.first_chunk()?;
        // The next columns are asked for meanwhile: no stream of lines so far apart is expected.
        s.prefetch(line.as_ptr().wrapping_add(LANES).cast());
        few::keys(s, line, first, self.smallest)
    }
}
