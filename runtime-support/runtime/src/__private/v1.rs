//! Version 1 of the names that generated code uses: items are only ever added.
pub use crate::arena::{ALIGN, Arena, R, RS, Region, Regions, W, WS};
pub use crate::attention::{Attention, Matrix};
pub use crate::bands::{Band, Bands, Lines, STAGES};
pub use crate::blob::{Blob, HEADER_BYTES, blob_header, blob_of_file};
pub use crate::calls::{Arguments, Operand, Target};
pub use crate::cast::{Bf16, F8e4m3, F8e5m2, F8e8m0, F16};
pub use crate::compact::{Compact, Form, pack_compact};
pub use crate::contraction::{
    Activation, Batch, Bound, Contraction, Epilogue, KERNEL_STACK_BYTES, RowAxis, Slopes, Tap, Tile, pack, pack_lines,
    pack_strided, packed_len,
};
pub use crate::cx::{Cx, IsaCell};
pub use crate::info::{Element, RunError, TensorDim, TensorInfo};
pub use crate::isa::Isa;
pub use crate::model::Memory;
pub use crate::pages::Mapped;
pub use crate::pod::{Pod, Zeroable};
pub use crate::raw::{Dst, Extent, Src};
pub use crate::shares::{Share, split_lines};
pub use crate::simd::{Simd, WithSimd, convert};
pub use crate::tensor::TensorView;
pub use crate::transpose::{CopyAxis, Transpose};
pub use crate::view::{Rows, RowsMut, View, ViewMut, ViewRow, ViewRowMut};
pub use crate::window::{Divisor, Window, shares_sets};
pub use crate::winograd::{Slices, Winograd, pack_winograd};
pub use crate::{LoadError, calls, cast, declare_model, math, nest, parts, weights_embedded, weights_incbin};

#[cfg(feature = "alloc")]
pub use crate::pod::zeroed_box;
#[cfg(feature = "threads")]
pub use crate::team::Team;
#[cfg(feature = "alloc")]
pub use alloc::boxed::Box;

/// Generated code names this item: an error here means that generated code and `include-ir` do not fit together.
pub const VERSION_CHECK_0_1: () = ();
