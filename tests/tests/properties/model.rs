//! Small models as XML, and the naive meaning of their operations.

use std::fmt::Write;

/// A tensor: dimensions and elements in row-major order.
pub type Array = (Vec<usize>, Vec<i64>);

/// A model of i64 tensors under construction; the operation added last is the output.
pub struct Ir {
    layers: Vec<String>,
    edges: String,
    weights: Vec<u8>,
}

impl Ir {
    pub fn new() -> Self {
        Ir { layers: Vec::new(), edges: String::new(), weights: Vec::new() }
    }

    fn layer(&mut self, kind: &str, opset: u32, data: &str, inputs: &[usize], output: bool) -> usize {
        let id = self.layers.len();
        let mut text =
            format!("<layer id=\"{id}\" name=\"n{id}\" type=\"{kind}\" version=\"opset{opset}\"><data {data}/>");
        for (port, from) in inputs.iter().enumerate() {
            let _ = write!(text, "{}<port id=\"{port}\"/>", if port == 0 { "<input>" } else { "" });
            let n = self.layers[*from].matches("<port").count() - 1;
            let edge = format!("from-layer=\"{from}\" from-port=\"{n}\" to-layer=\"{id}\" to-port=\"{port}\"");
            let _ = write!(self.edges, "<edge {edge}/>");
        }
        text += if inputs.is_empty() { "" } else { "</input>" };
        if output {
            let _ = write!(text, "<output><port id=\"{}\" precision=\"I64\"/></output>", inputs.len());
        }
        self.layers.push(text + "</layer>");
        id
    }

    pub fn parameter(&mut self, dims: &[usize]) -> usize {
        self.layer("Parameter", 1, &format!("shape=\"{}\" element_type=\"i64\"", list(dims)), &[], true)
    }

    pub fn constant(&mut self, values: &[i64]) -> usize {
        let (offset, size) = (self.weights.len(), values.len() * 8);
        self.weights.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let data = format!("shape=\"{}\" element_type=\"i64\" offset=\"{offset}\" size=\"{size}\"", values.len());
        self.layer("Const", 1, &data, &[], true)
    }

    pub fn operation(&mut self, kind: &str, opset: u32, data: &str, inputs: &[usize]) -> usize {
        self.layer(kind, opset, data, inputs, true)
    }

    pub fn xml(&self) -> String {
        let mut whole = Ir { layers: self.layers.clone(), edges: self.edges.clone(), weights: Vec::new() };
        whole.layer("Result", 1, "", &[self.layers.len() - 1], false);
        let (layers, edges) = (whole.layers.concat(), whole.edges);
        format!("<net name=\"m\" version=\"11\"><layers>{layers}</layers><edges>{edges}</edges></net>")
    }

    pub fn weights(&self) -> Vec<u8> {
        self.weights.clone()
    }
}

fn list(dims: &[usize]) -> String {
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The index of element `i` in row-major order.
pub fn unravel(mut i: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (slot, dim) in index.iter_mut().zip(dims).rev() {
        (*slot, i) = (i % dim, i / dim);
    }
    index
}

fn ravel(index: &[usize], dims: &[usize]) -> usize {
    index.iter().zip(dims).fold(0, |sum, (i, dim)| sum * dim + i)
}

/// Element by element, over the indices of `dims`.
fn each(dims: Vec<usize>, f: impl Fn(&[usize]) -> i64) -> Array {
    let count = dims.iter().product();
    let values = (0..count).map(|i| f(&unravel(i, &dims))).collect();
    (dims, values)
}

/// Addition under numpy's rule; `None` where the shapes do not fit.
pub fn add(a: &Array, b: &Array) -> Option<Array> {
    let rank = a.0.len().max(b.0.len());
    let padded = |dims: &[usize]| [vec![1; rank - dims.len()], dims.to_vec()].concat();
    let (da, db) = (padded(&a.0), padded(&b.0));
    let common = |(x, y): (&usize, &usize)| match (*x, *y) {
        (x, y) if x == y => Some(x),
        (1, y) => Some(y),
        (x, 1) => Some(x),
        _ => None,
    };
    let dims: Vec<usize> = da.iter().zip(&db).map(common).collect::<Option<_>>()?;
    let at = |array: &Array, dims: &[usize], index: &[usize]| {
        let index: Vec<usize> = index.iter().zip(dims).map(|(i, dim)| if *dim == 1 { 0 } else { *i }).collect();
        array.1[ravel(&index, dims)]
    };
    Some(each(dims, |index| at(a, &da, index) + at(b, &db, index)))
}

/// `x[start:stop:step]` along every axis as numpy counts; but going down, a start before the first element is the first.
pub fn slice(x: &Array, cuts: &[(i64, i64, i64)]) -> Array {
    let kept = |(dim, (start, stop, step)): (&usize, &(i64, i64, i64))| -> Vec<usize> {
        let n = *dim as i64;
        let wrap = |at: i64| if at < 0 { at + n } else { at };
        let (first, low, high) = if *step > 0 { (0, 0, n) } else { (0.min(n - 1), -1, n - 1) };
        let (mut at, stop) = (wrap(*start).clamp(first, high), wrap(*stop).clamp(low, high));
        let mut kept = Vec::new();
        while (*step > 0 && at < stop) || (*step < 0 && at > stop) {
            kept.push(at as usize);
            at += step;
        }
        kept
    };
    let kept: Vec<Vec<usize>> = x.0.iter().zip(cuts).map(kept).collect();
    each(kept.iter().map(Vec::len).collect(), |index| {
        let from: Vec<usize> = index.iter().zip(&kept).map(|(i, kept)| kept[*i]).collect();
        x.1[ravel(&from, &x.0)]
    })
}

/// Axis `i` of the result is axis `order[i]` of `x`.
pub fn transpose(x: &Array, order: &[usize]) -> Array {
    let dims: Vec<usize> = order.iter().map(|axis| x.0[*axis]).collect();
    each(dims, |index| {
        let mut from = vec![0; index.len()];
        order.iter().zip(index).for_each(|(axis, i)| from[*axis] = *i);
        x.1[ravel(&from, &x.0)]
    })
}
