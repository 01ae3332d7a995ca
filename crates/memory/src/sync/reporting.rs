//! Atomics that report what is done to them to the model of [`coherence`](super::coherence).

use std::sync::atomic;
use std::sync::atomic::Ordering;

use super::coherence::{Access, note};

macro_rules! reporting {
    ($visibility:vis $name:ident $(<$type:ident>)?: $value:ty, $($exchange:ident)*) => {
        /// The atomic of this name, reporting.
        #[derive(Debug)]
        #[repr(transparent)]
        $visibility struct $name$(<$type>)?(atomic::$name$(<$type>)?);

        impl$(<$type>)? $name$(<$type>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                note(self, Access::Read);
                self.0.load(ordering)
            }

            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                note(self, Access::Write);
                self.0.store(value, ordering);
            }

            $(pub(crate) fn $exchange(&self, value: $value, ordering: Ordering) -> $value {
                note(self, Access::Exchange);
                self.0.$exchange(value, ordering)
            })*
        }
    };
}

macro_rules! reporting_exchange {
    ($($name:ident: $value:ty),*) => {$(
        impl $name {
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(self, Access::Exchange);
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    )*};
}

reporting! { pub(crate) AtomicU16: u16, }
reporting! { pub(crate) AtomicU32: u32, fetch_add fetch_sub swap }
reporting! { pub AtomicU64: u64, fetch_add fetch_or fetch_and swap }
reporting! { pub(crate) AtomicPtr<T>: *mut T, }
reporting_exchange! { AtomicU32: u32, AtomicU64: u64 }

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}
