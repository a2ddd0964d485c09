//! Evaluation of one nest, in blocks of lanes along one axis.

use super::address::Address;
use super::lanes::Lanes;
use super::{Interpreter, elements, scalar};
use crate::element::ElementType;
use crate::program::nest::{Access, Const, ReduceFn, Scalar};
use crate::program::{Nest, verify};
use std::ops::Range;

/// Longest block.
const BLOCK: usize = 1024;

/// A load or a store with compiled addresses.
struct Place {
    element: ElementType,
    buffer: crate::program::BufferId,
    address: Address,
    bounds: Vec<(Address, Address)>,
}

/// A nest under fixed run-time variables.
struct Running<'n> {
    nest: &'n Nest,
    extents: Vec<i64>,
    /// Axes whose extents are scalars: these are evaluated before every reduction.
    counted: Vec<(usize, Address)>,
    /// The axis along which blocks run.
    lane: usize,
    loads: Vec<Option<Place>>,
    indices: Vec<Option<Address>>,
    values: Vec<Lanes>,
    /// Nodes evaluated for the extents, per point of all axes, and per point of the map axes.
    counts: Vec<usize>,
    before: Vec<usize>,
    after: Vec<usize>,
}

impl Interpreter<'_> {
    /// Runs one nest.
    pub(super) fn nest(&mut self, nest: &Nest) -> Result<(), String> {
        let mut running = self.prepare(nest)?;
        let store = self.place(&nest.store, &[])?;
        let target = self.program.buffer(nest.store.buffer).layout.storage;
        let mut out = self.take(nest.store.buffer)?;
        if nest.loads().any(|access| self.program.buffer(access.buffer).layout.storage == target) {
            // The nest reads other parts of the memory that it writes: as they were before.
            self.put_back(nest.store.buffer, out.clone());
        }
        let result = running.run(self, &store, &mut out);
        self.put_back(nest.store.buffer, out);
        result
    }

    fn prepare<'n>(&self, nest: &'n Nest) -> Result<Running<'n>, String> {
        let extents: Vec<i64> = nest.axes.iter().map(|axis| self.size(&axis.extent).max(0)).collect();
        let counted = nest.axes.iter().enumerate().filter(|(_, axis)| axis.extent.is_index());
        let counted: Vec<(usize, Address)> =
            counted.map(|(i, axis)| (i, Address::new(&axis.extent, &|atom| self.variable(atom)))).collect();
        // Lanes share the reduction axes, so they may not run along a map axis where extents differ from point to point.
        let lane = counted.last().map_or_else(|| lane_axis(nest, &extents), |(axis, _)| *axis);
        let block = match counted.is_empty() {
            true => extents.get(lane).map_or(1, |e| (*e as usize).clamp(1, BLOCK)),
            false => BLOCK,
        };
        let types = verify::scalar_types(self.program, nest)?;
        let mut running = Running {
            nest,
            lane,
            loads: Vec::new(),
            indices: Vec::new(),
            values: types.iter().map(|ty| Lanes::zeros(*ty, block)).collect(),
            counts: nest.needed(&nest.counts()),
            before: nest.needed(nest.reduction.map(|r| r.value).as_slice()),
            after: nest.needed(&nest.stored()),
            counted,
            extents,
        };
        for (node, lanes) in nest.nodes.iter().zip(&mut running.values) {
            let (mut load, mut index) = (None, None);
            match node {
                Scalar::Load { access, bounds, .. } => load = Some(self.place(access, bounds)?),
                Scalar::Index(dim) => index = Some(Address::new(dim, &|atom| self.variable(atom))),
                Scalar::Const(value) => lanes.fill(*value),
                _ => {}
            }
            running.loads.push(load);
            running.indices.push(index);
        }
        Ok(running)
    }

    fn place(&self, access: &Access, bounds: &[crate::program::Bound]) -> Result<Place, String> {
        let compile = |dim: &crate::dim::Dim| Address::new(dim, &|atom| self.variable(atom));
        Ok(Place {
            element: self.program.buffer(access.buffer).element,
            buffer: access.buffer,
            address: compile(&self.program.address(access.buffer, &access.index)),
            bounds: bounds.iter().map(|bound| (compile(&bound.value), compile(&bound.limit))).collect(),
        })
    }
}

/// The axis with most iterations, the last map axis if that has at least 16.
fn lane_axis(nest: &Nest, extents: &[i64]) -> usize {
    let last = nest.maps.saturating_sub(1);
    if extents.get(last).is_some_and(|e| *e >= 16) && nest.maps > 0 {
        return last;
    }
    (0..extents.len()).max_by_key(|axis| extents[*axis]).unwrap_or(0)
}

impl Running<'_> {
    fn run(&mut self, interpreter: &Interpreter, store: &Place, out: &mut [u8]) -> Result<(), String> {
        let maps = self.nest.maps;
        if self.extents[..maps].contains(&0) {
            return Ok(());
        }
        let lane_is_map = self.lane < maps;
        let mut point = vec![0i64; self.extents.len()];
        loop {
            let lanes = if lane_is_map { self.extents[self.lane] as usize } else { 1 };
            for start in (0..lanes).step_by(BLOCK) {
                let count = BLOCK.min(lanes - start);
                if lane_is_map {
                    point[self.lane] = start as i64;
                }
                self.finish(interpreter, &mut point, count, store, out)?;
            }
            if lane_is_map {
                point[self.lane] = 0;
            }
            if !advance(&mut point, &self.extents, 0..maps, self.lane) {
                return Ok(());
            }
        }
    }

    /// Reduces, evaluates what follows the reduction, and stores `count` elements.
    fn finish(
        &mut self,
        interpreter: &Interpreter,
        point: &mut [i64],
        count: usize,
        store: &Place,
        out: &mut [u8],
    ) -> Result<(), String> {
        let reduced = match self.nest.reduction {
            Some(reduction) => {
                Some(self.reduce(interpreter, point, count, reduction.function, reduction.value as usize)?)
            }
            None => None,
        };
        for k in 0..self.after.len() {
            let node = self.after[k];
            match (&self.nest.nodes[node], &reduced) {
                (Scalar::Reduced, Some(value)) => self.values[node].copy_part(value, 0..count),
                _ => self.evaluate(interpreter, node, point, count)?,
            }
        }
        let lanes = &self.values[self.nest.result as usize];
        let scalars = |node: u32, lane: usize| self.values.get(node as usize).map_or(0, |v| v.index(lane));
        match store.address.stride(self.lane) {
            Some(stride) => elements::store(out, store.element, store.address.at(point, &|_| 0), stride, lanes, count),
            None => {
                let mut one = point.to_vec();
                let mut single = lanes.clone();
                for lane in 0..count {
                    if let Some(slot) = one.get_mut(self.lane) {
                        *slot = point[self.lane] + lane as i64;
                    }
                    single.rotate_to_front(lanes, lane);
                    let at = store.address.at(&one, &|node| scalars(node, lane));
                    elements::store(out, store.element, at, 0, &single, 1)?;
                }
                Ok(())
            }
        }
    }

    /// The reduction for `count` lanes of a map axis, or for one point when the lanes run along a reduction axis.
    fn reduce(
        &mut self,
        interpreter: &Interpreter,
        point: &mut [i64],
        count: usize,
        function: ReduceFn,
        value: usize,
    ) -> Result<Lanes, String> {
        let maps = self.nest.maps;
        self.count(interpreter, point)?;
        let mut total = Accumulator::new(function, &self.values[value], count);
        if self.extents[maps..].contains(&0) {
            return Ok(total.result());
        }
        point[maps..].fill(0);
        let lane_is_map = self.lane < maps;
        loop {
            let lanes = if lane_is_map { count } else { self.extents.get(self.lane).map_or(1, |e| *e as usize) };
            for start in (0..lanes).step_by(BLOCK) {
                let part = BLOCK.min(lanes - start);
                if let (false, Some(slot)) = (lane_is_map, point.get_mut(self.lane)) {
                    *slot = start as i64;
                }
                for k in 0..self.before.len() {
                    self.evaluate(interpreter, self.before[k], point, part)?;
                }
                total.add(&self.values[value], part, lane_is_map);
            }
            if let (false, Some(slot)) = (lane_is_map, point.get_mut(self.lane)) {
                *slot = 0;
            }
            if !advance(point, &self.extents, maps..self.extents.len(), self.lane) {
                return Ok(total.result());
            }
        }
    }

    /// Sets the extents that depend on the point of the map axes.
    fn count(&mut self, interpreter: &Interpreter, point: &mut [i64]) -> Result<(), String> {
        if self.counted.is_empty() {
            return Ok(());
        }
        point[self.nest.maps..].fill(0);
        for k in 0..self.counts.len() {
            self.evaluate(interpreter, self.counts[k], point, 1)?;
        }
        let scalar = |node: u32| self.values.get(node as usize).map_or(0, |v| v.index(0));
        for (axis, extent) in &self.counted {
            self.extents[*axis] = extent.at(point, &scalar).max(0);
        }
        Ok(())
    }

    /// Evaluates one node for `count` lanes.
    fn evaluate(&mut self, interpreter: &Interpreter, node: usize, point: &[i64], count: usize) -> Result<(), String> {
        let (earlier, rest) = self.values.split_at_mut(node);
        let Some(out) = rest.first_mut() else { return Err("a node does not exist".to_owned()) };
        let operand = |node: u32| earlier.get(node as usize).ok_or("a node uses a later node");
        match &self.nest.nodes[node] {
            Scalar::Const(_) => Ok(()),
            Scalar::Index(_) => {
                let (Lanes::I64(out), Some(address)) = (out, &self.indices[node]) else {
                    return Err("an index of another type than i64".to_owned());
                };
                fill_index(out, address, point, self.lane, count, earlier);
                Ok(())
            }
            Scalar::Load { otherwise, .. } => {
                let Some(place) = &self.loads[node] else { return Err("a load was not compiled".to_owned()) };
                let otherwise = otherwise.map(operand).transpose()?;
                let context =
                    LoadContext { storage: interpreter.storage(place.buffer), point, lane: self.lane, earlier };
                context.load(place, out, otherwise, count)
            }
            Scalar::Unary(function, a) => scalar::unary(*function, operand(*a)?, out),
            Scalar::Binary(function, a, b) => scalar::binary(*function, operand(*a)?, operand(*b)?, out),
            Scalar::Select(c, a, b) => scalar::select(operand(*c)?, operand(*a)?, operand(*b)?, out),
            Scalar::Cast(element, a) => scalar::convert(*element, operand(*a)?, out),
            Scalar::Reduced => Err("a reduction is used before it is done".to_owned()),
        }
    }
}

fn fill_index(out: &mut [i64], address: &Address, point: &[i64], lane_axis: usize, count: usize, earlier: &[Lanes]) {
    if let Some(stride) = address.stride(lane_axis) {
        let start = address.at(point, &|_| 0);
        for (lane, out) in out.iter_mut().take(count).enumerate() {
            *out = start + lane as i64 * stride;
        }
        return;
    }
    let mut one = point.to_vec();
    for (lane, out) in out.iter_mut().take(count).enumerate() {
        if let (Some(slot), Some(start)) = (one.get_mut(lane_axis), point.get(lane_axis)) {
            *slot = start + lane as i64;
        }
        *out = address.at(&one, &|node| earlier.get(node as usize).map_or(0, |v| v.index(lane)));
    }
}

/// What a load depends on.
struct LoadContext<'a> {
    storage: &'a [u8],
    point: &'a [i64],
    lane: usize,
    earlier: &'a [Lanes],
}

impl LoadContext<'_> {
    fn load(&self, place: &Place, out: &mut Lanes, otherwise: Option<&Lanes>, count: usize) -> Result<(), String> {
        let Some(inside) = self.valid(place, count) else { return self.load_each(place, out, otherwise, count) };
        if let Some(otherwise) = otherwise {
            out.copy_part(otherwise, 0..inside.start);
            out.copy_part(otherwise, inside.end..count);
        }
        if inside.is_empty() {
            return Ok(());
        }
        let Some(stride) = place.address.stride(self.lane) else { return self.load_each(place, out, otherwise, count) };
        let start = place.address.at(self.point, &|_| 0) + inside.start as i64 * stride;
        elements::load(self.storage, place.element, start, stride, out, inside)
    }

    /// The lanes for which all bounds hold, where these are linear in the lane.
    fn valid(&self, place: &Place, count: usize) -> Option<Range<usize>> {
        let (mut first, mut end) = (0i64, count as i64);
        for (value, limit) in &place.bounds {
            let (stride, 0) = (value.stride(self.lane)?, limit.stride(self.lane)?) else { return None };
            let (start, limit) = (value.at(self.point, &|_| 0), limit.at(self.point, &|_| 0));
            if stride == 0 {
                if start < 0 || start >= limit {
                    end = 0;
                }
            } else if stride > 0 {
                first = first.max((-start + stride - 1).div_euclid(stride));
                end = end.min((limit - start + stride - 1).div_euclid(stride));
            } else {
                first = first.max((start - limit).div_euclid(-stride) + 1);
                end = end.min(start.div_euclid(-stride) + 1);
            }
        }
        let first = first.clamp(0, count as i64);
        Some(first as usize..end.clamp(first, count as i64) as usize)
    }

    fn load_each(&self, place: &Place, out: &mut Lanes, otherwise: Option<&Lanes>, count: usize) -> Result<(), String> {
        let mut point = self.point.to_vec();
        for lane in 0..count {
            if let (Some(slot), Some(start)) = (point.get_mut(self.lane), self.point.get(self.lane)) {
                *slot = start + lane as i64;
            }
            let scalars = |node: u32| self.earlier.get(node as usize).map_or(0, |v| v.index(lane));
            let inside = place.bounds.iter().all(|(value, limit)| {
                let value = value.at(&point, &scalars);
                value >= 0 && value < limit.at(&point, &scalars)
            });
            match (inside, otherwise) {
                (false, Some(otherwise)) => out.copy_part(otherwise, lane..lane + 1),
                _ => {
                    let at = place.address.at(&point, &scalars);
                    elements::load(self.storage, place.element, at, 0, out, lane..lane + 1)?;
                }
            }
        }
        Ok(())
    }
}

/// Next point of the axes in `range` other than `skip`; `false` after the last one.
fn advance(point: &mut [i64], extents: &[i64], range: Range<usize>, skip: usize) -> bool {
    for axis in range.rev().filter(|axis| *axis != skip) {
        point[axis] += 1;
        if point[axis] < extents[axis] {
            return true;
        }
        point[axis] = 0;
    }
    false
}

/// Running value of a reduction; f32 sums and products in f64.
struct Accumulator {
    function: ReduceFn,
    total: Lanes,
    /// Whether `total` holds f64 for f32 values.
    widened: bool,
}

impl Accumulator {
    fn new(function: ReduceFn, like: &Lanes, count: usize) -> Self {
        use crate::program::nest::ScalarType::*;
        let sums = matches!(function, ReduceFn::Sum | ReduceFn::Prod);
        let widened = sums && matches!(like, Lanes::F32(_));
        let ty = match like {
            Lanes::F32(_) if widened => F64,
            Lanes::F32(_) => F32,
            Lanes::F64(_) => F64,
            Lanes::I32(_) => I32,
            Lanes::I64(_) => I64,
            Lanes::U64(_) => U64,
            Lanes::Bool(_) => Bool,
        };
        let mut total = Lanes::zeros(ty, count);
        total.fill(identity(function, ty));
        Accumulator { function, total, widened }
    }

    /// Adds `count` values: lane by lane, or all into the first lane.
    fn add(&mut self, values: &Lanes, count: usize, by_lane: bool) {
        macro_rules! combine {
            ($total:ident, $values:ident, $convert:expr, $f:expr) => {{
                let values = $values.iter().take(count).map(|v| $convert(*v));
                if by_lane {
                    $total.iter_mut().zip(values).for_each(|(t, v)| *t = $f(*t, v));
                } else if let Some(first) = $total.first_mut() {
                    *first = values.fold(*first, $f);
                }
            }};
        }
        macro_rules! integer {
            ($t:ty, $total:ident, $values:ident) => {
                match self.function {
                    ReduceFn::Sum => combine!($total, $values, |v| v, <$t>::wrapping_add),
                    ReduceFn::Prod => combine!($total, $values, |v| v, <$t>::wrapping_mul),
                    ReduceFn::Max | ReduceFn::Any => combine!($total, $values, |v| v, <$t>::max),
                    ReduceFn::Min | ReduceFn::All => combine!($total, $values, |v| v, <$t>::min),
                }
            };
        }
        use include_ir_runtime::__private::v1::math;
        match (&mut self.total, values) {
            (Lanes::F64(total), Lanes::F32(values)) => match self.function {
                ReduceFn::Prod => combine!(total, values, f64::from, |a: f64, b: f64| a * b),
                _ => combine!(total, values, f64::from, |a: f64, b: f64| a + b),
            },
            (Lanes::F32(total), Lanes::F32(values)) => match self.function {
                ReduceFn::Min => combine!(total, values, |v| v, math::min),
                _ => combine!(total, values, |v| v, math::max),
            },
            (Lanes::F64(total), Lanes::F64(values)) => match self.function {
                ReduceFn::Sum => combine!(total, values, |v| v, |a: f64, b: f64| a + b),
                ReduceFn::Prod => combine!(total, values, |v| v, |a: f64, b: f64| a * b),
                ReduceFn::Min => combine!(total, values, |v| v, math::min_f64),
                _ => combine!(total, values, |v| v, math::max_f64),
            },
            (Lanes::I32(total), Lanes::I32(values)) => integer!(i32, total, values),
            (Lanes::I64(total), Lanes::I64(values)) => integer!(i64, total, values),
            (Lanes::U64(total), Lanes::U64(values)) => integer!(u64, total, values),
            (Lanes::Bool(total), Lanes::Bool(values)) => match self.function {
                ReduceFn::All | ReduceFn::Min | ReduceFn::Prod => {
                    combine!(total, values, |v| v, |a: bool, b: bool| a & b)
                }
                _ => combine!(total, values, |v| v, |a: bool, b: bool| a | b),
            },
            _ => {}
        }
    }

    fn result(self) -> Lanes {
        match self.total {
            Lanes::F64(total) if self.widened => Lanes::F32(total.into_iter().map(|v| v as f32).collect()),
            total => total,
        }
    }
}

fn identity(function: ReduceFn, ty: crate::program::nest::ScalarType) -> Const {
    use crate::program::nest::ScalarType::*;
    let lowest = |ty| match ty {
        I32 => Const::I32(i32::MIN),
        I64 => Const::I64(i64::MIN),
        U64 => Const::U64(0),
        Bool => Const::Bool(false),
        float => Const::of(float, f64::NEG_INFINITY),
    };
    let highest = |ty| match ty {
        I32 => Const::I32(i32::MAX),
        I64 => Const::I64(i64::MAX),
        U64 => Const::U64(u64::MAX),
        Bool => Const::Bool(true),
        float => Const::of(float, f64::INFINITY),
    };
    match function {
        ReduceFn::Sum => Const::of(ty, 0.0),
        ReduceFn::Prod => Const::of(ty, 1.0),
        ReduceFn::Max | ReduceFn::Any => lowest(ty),
        ReduceFn::Min | ReduceFn::All => highest(ty),
    }
}
