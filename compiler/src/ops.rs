//! Operation families: one file each. A new family is a `mod` line and a row of [`FAMILIES`].

pub mod activation;
pub mod adaptive_pool;
pub mod attention;
pub mod beam;
pub mod binary;
pub mod bitwise;
pub mod colour;
pub mod comparison;
pub mod concat;
pub mod control;
pub mod convert;
pub mod convolution;
pub mod ctc;
pub mod deformable;
pub mod detection;
pub mod detectron;
pub mod einsum;
pub mod find;
pub mod fourier;
pub mod gather;
pub mod generate;
pub mod grid_sample;
pub mod interpolate;
pub mod inverse;
pub mod io;
pub mod logical;
pub mod matmul;
pub mod norm;
pub mod pad;
pub mod patches;
pub mod pool;
pub mod prior;
pub mod prior_grid;
pub mod promote;
pub mod proposals;
pub mod psroi;
pub mod quantize;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod reshape;
pub mod roi;
pub mod scan;
pub mod scatter;
pub mod search;
pub mod segments;
pub mod select;
pub mod slice;
pub mod softmax;
pub mod sort;
pub mod sparse;
pub mod spatial;
pub mod state;
pub mod string;
pub mod suppression;
pub mod tile;
pub mod transpose;
pub mod unary;
pub mod yolo;

use crate::op::OpDef;

/// All operation tables, alphabetically.
pub const FAMILIES: &[&[OpDef]] = &[
    activation::OPS,
    adaptive_pool::OPS,
    attention::OPS,
    beam::OPS,
    binary::OPS,
    bitwise::OPS,
    colour::OPS,
    comparison::OPS,
    concat::OPS,
    control::OPS,
    convert::OPS,
    convolution::OPS,
    ctc::OPS,
    deformable::OPS,
    detection::OPS,
    detectron::OPS,
    einsum::OPS,
    find::OPS,
    fourier::OPS,
    gather::OPS,
    generate::OPS,
    grid_sample::OPS,
    interpolate::OPS,
    inverse::OPS,
    io::OPS,
    logical::OPS,
    matmul::OPS,
    norm::OPS,
    pad::OPS,
    patches::OPS,
    pool::OPS,
    prior::OPS,
    prior_grid::OPS,
    promote::OPS,
    proposals::OPS,
    psroi::OPS,
    quantize::OPS,
    random::OPS,
    recurrent::OPS,
    reduce::OPS,
    reshape::OPS,
    roi::OPS,
    scan::OPS,
    scatter::OPS,
    search::OPS,
    segments::OPS,
    select::OPS,
    slice::OPS,
    softmax::OPS,
    sort::OPS,
    sparse::OPS,
    spatial::OPS,
    state::OPS,
    string::OPS,
    suppression::OPS,
    tile::OPS,
    transpose::OPS,
    unary::OPS,
    yolo::OPS,
];
