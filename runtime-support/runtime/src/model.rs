//! The memory of one model, all zero bits until first used, and the macro that declares a model struct over it.
use crate::arena::Arena;
use crate::cx::IsaCell;
use crate::pod::Zeroable;

/// Working memory of `ARENA` bytes and lasting state of `STATE` bytes.
#[derive(Default)]
#[repr(C)]
pub struct Memory<const ARENA: usize, const STATE: usize> {
    /// Intermediate values; meaningless between runs.
    pub arena: Arena<ARENA>,
    /// State variables; last from run to run.
    pub state: Arena<STATE>,
    /// The instruction set, once known, and the threads.
    pub isa: IsaCell,
}

impl<const ARENA: usize, const STATE: usize> Memory<ARENA, STATE> {
    /// All zero bits.
    #[must_use]
    pub const fn new() -> Self {
        Memory { arena: Arena::new(), state: Arena::new(), isa: IsaCell::new() }
    }
}

// SAFETY: bytes, an atomic byte and, with feature `threads`, an `Option<Box<_>>`: zero is valid for all of them, and is what `new` makes.
unsafe impl<const ARENA: usize, const STATE: usize> Zeroable for Memory<ARENA, STATE> {}
// SAFETY: bytes.
unsafe impl<const BYTES: usize> Zeroable for Arena<BYTES> {}

/// Declares a model struct over [`Memory`]: `declare_model!(pub struct Model: Memory<1024, 0>);`
///
/// Sizes are literals, names of constants or blocks. The struct has a private field `memory`, `const fn new()`, `force_isa`, `Default`, and with feature `alloc` `boxed()`.
#[macro_export]
macro_rules! declare_model {
    ($(#[$meta:meta])* $vis:vis struct $name:ident : Memory<$arena:tt, $state:tt> $(;)?) => {
        $(#[$meta])*
        #[repr(transparent)]
        $vis struct $name {
            memory: $crate::__private::v1::Memory<{ $arena }, { $state }>,
        }
        // SAFETY: transparent over `Memory`, for which all zero bits are valid.
        unsafe impl $crate::__private::v1::Zeroable for $name {}
        impl $name {
            /// A model of all zero bits: put it in a `static`. As a local variable it may overflow the stack.
            #[must_use]
            pub const fn new() -> Self {
                Self { memory: $crate::__private::v1::Memory::new() }
            }

            /// Runs on this instruction set from now on, for tests and measurements; `false` if the processor lacks it.
            pub fn force_isa(&mut self, isa: $crate::__private::v1::Isa) -> bool {
                self.memory.isa.force(isa)
            }
        }
        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
        $crate::__declare_boxed!($name);
        $crate::__declare_threads!($name);
    };
}

/// `boxed()` for [`declare_model!`].
#[doc(hidden)]
#[macro_export]
#[cfg(feature = "alloc")]
macro_rules! __declare_boxed {
    ($name:ident) => {
        impl $name {
            /// A model on the heap, without a detour over the stack.
            #[must_use]
            pub fn boxed() -> $crate::__private::v1::Box<Self> {
                $crate::__private::v1::zeroed_box()
            }
        }
    };
}

/// The methods about threads for [`declare_model!`].
#[doc(hidden)]
#[macro_export]
#[cfg(feature = "threads")]
macro_rules! __declare_threads {
    ($name:ident) => {
        impl $name {
            /// Splits the steps of every run among this many threads, the one that calls `run` included; 1 is how a model
            /// begins: no other thread, no cost. Results are the same bits for every number.
            pub fn set_threads(&mut self, threads: usize) {
                let team = (threads > 1).then(|| $crate::__private::v1::Team::new(threads));
                self.memory.isa.set_team(team);
            }

            /// The same with the threads of a team that other models may use too.
            pub fn set_team(&mut self, team: &$crate::__private::v1::Team) {
                self.memory.isa.set_team(::core::option::Option::Some(::core::clone::Clone::clone(team)));
            }
        }
    };
}

/// Without feature `threads` there is one thread.
#[doc(hidden)]
#[macro_export]
#[cfg(not(feature = "threads"))]
macro_rules! __declare_threads {
    ($name:ident) => {};
}

/// Without feature `alloc` there is no `boxed()`.
#[doc(hidden)]
#[macro_export]
#[cfg(not(feature = "alloc"))]
macro_rules! __declare_boxed {
    ($name:ident) => {};
}

#[cfg(test)]
mod tests {
    #[allow(dead_code)]
    mod generated {
        crate::declare_model!(
            /// A model with 12 MB of memory.
            pub struct Model: Memory<12_582_912, 64>
        );
        #[forbid(unsafe_code)]
        mod steps {
            use crate::arena::{R, W};
            impl super::Model {
                pub fn run(&mut self, x: f32) -> f32 {
                    let (count,) = self.memory.state.get::<(W<[f32; 1], 0>,)>();
                    count[0] += 1.0;
                    let count = count[0];
                    let (a, b) = self.memory.arena.get::<(W<[f32; 4], 0>, W<[f32; 4], 12_582_896>)>();
                    a[0] = x;
                    b[3] = a[0] * 2.0 + count;
                    let (b,) = self.memory.arena.get::<(R<[f32; 4], 12_582_896>,)>();
                    b[3]
                }
            }
        }
    }

    #[test]
    #[cfg(feature = "alloc")]
    fn boxed_models_run() {
        let mut model = generated::Model::boxed();
        assert_eq!([model.run(3.0), model.run(3.0)], [7.0, 8.0]);
    }

    #[test]
    fn static_models_run() {
        extern crate std;
        static MODEL: std::sync::Mutex<generated::Model> = std::sync::Mutex::new(generated::Model::new());
        assert_eq!(MODEL.lock().unwrap().run(1.0), 3.0);
    }
}
