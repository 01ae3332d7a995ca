//! Values of columns as the bytes of their type, and back.

#![expect(unsafe_code, reason = "values come and go as datums")]

use pgrx::{pg_sys, varlena};

/// How the server passes the values of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Bytes of a value; negative where they differ in length.
    len: i16,
    is_by_value: bool,
}

/// The values of a row, as the server takes them.
#[derive(Default)]
pub(crate) struct RowValues {
    /// As many as there are columns, and whether each is null.
    pub(crate) values: Vec<pg_sys::Datum>,
    pub(crate) nulls: Vec<bool>,
    memory: RowMemory,
}

/// Memory of the values of a row that are passed by pointer.
#[derive(Default)]
pub(super) struct RowMemory {
    words: Vec<u64>,
    used: usize,
}

impl RowValues {
    /// Empties it, and makes room for so many values that have so many bytes together: they stay
    /// where they are put until this is called again.
    pub(super) fn begin(&mut self, values: usize, bytes: usize) {
        self.values.clear();
        self.nulls.clear();
        let words = bytes.div_ceil(size_of::<u64>()) + values * VALUE_WORDS;
        self.memory.used = 0;
        if self.memory.words.len() < words {
            self.memory.words.resize(words, 0);
        }
    }

    /// Appends a value, or a null.
    pub(super) fn push_with(&mut self, value: impl FnOnce(&mut RowMemory) -> Option<pg_sys::Datum>) {
        let value = value(&mut self.memory);
        self.values.push(value.unwrap_or(pg_sys::Datum::null()));
        self.nulls.push(value.is_none());
    }
}

impl RowMemory {
    /// Room for a value.
    fn take(&mut self, bytes: usize) -> *mut u64 {
        let room = &mut self.words[self.used..][..bytes.div_ceil(size_of::<u64>())];
        self.used += room.len();
        room.as_mut_ptr()
    }
}

/// Words that a value may take beside its bytes: for its header, and to its end.
const VALUE_WORDS: usize = 2;
/// Bytes in front of those of a value of variable width, in memory.
const VARLENA_HEADER_LEN: usize = 4;
/// Words that are kept on the stack for a value.
const SCRATCH_WORDS: usize = 32;

impl Stored {
    /// Values of 8 bytes.
    pub(super) const WORD: Self = Self {
        len: 8,
        is_by_value: true,
    };

    /// How values of a column of a tuple are passed; `None` if they are no values of a table.
    pub(super) fn of_attribute(attribute: &pg_sys::FormData_pg_attribute) -> Option<Self> {
        let (len, is_by_value) = (attribute.attlen, attribute.attbyval);
        (len >= -1).then_some(Self { len, is_by_value })
    }

    /// Bytes of every value, if all have as many.
    pub(super) fn width(self) -> Option<usize> {
        usize::try_from(self.len).ok()
    }

    /// How many bytes a value has. One that was compressed or stored elsewhere stays there.
    ///
    /// # Safety
    ///
    /// The datum is of this type, and not null.
    pub(super) unsafe fn len_of(self, datum: pg_sys::Datum) -> usize {
        self.width().unwrap_or_else(|| {
            let value = datum.cast_mut_ptr::<pg_sys::varlena>();
            // SAFETY: the caller's.
            unsafe {
                let is_short = varlena::varatt_is_1b(value) && !varlena::varatt_is_1b_e(value);
                if is_short || varlena::varatt_is_4b_u(value) {
                    varlena::varsize_any_exhdr(value)
                } else {
                    pg_sys::toast_raw_datum_size(datum) - VARLENA_HEADER_LEN
                }
            }
        })
    }

    /// Shows `view` the bytes of a value.
    ///
    /// # Safety
    ///
    /// The datum is of this type, and not null.
    pub(super) unsafe fn with_bytes<R>(self, datum: pg_sys::Datum, view: impl FnOnce(&[u8]) -> R) -> R {
        let Some(width) = self.width() else {
            // SAFETY: the caller's; a value that was compressed or stored elsewhere is copied, and
            // freed.
            return unsafe {
                let value = datum.cast_mut_ptr::<pg_sys::varlena>();
                let detoasted = pg_sys::pg_detoast_datum_packed(value);
                let result = view(varlena::varlena_to_byte_slice(detoasted));
                if detoasted != value {
                    pg_sys::pfree(detoasted.cast());
                }
                result
            };
        };
        if self.is_by_value {
            return view(&datum.value().to_le_bytes()[..width]);
        }
        // SAFETY: the caller's; such a datum is a pointer to as many bytes.
        view(unsafe { std::slice::from_raw_parts(datum.cast_mut_ptr::<u8>(), width) })
    }

    /// Appends the bytes of a value.
    ///
    /// # Safety
    ///
    /// The datum is of this type, and not null.
    pub(super) unsafe fn push_bytes(self, datum: pg_sys::Datum, out: &mut Vec<u8>) {
        // SAFETY: the caller's.
        unsafe { self.with_bytes(datum, |bytes| out.extend_from_slice(bytes)) };
    }

    /// Bytes of a payload that tell the length of a value.
    pub(super) fn len_len(self) -> usize {
        self.width().map_or(size_of::<u16>(), |_| 0)
    }

    /// Whether bytes may be those of a value.
    pub(super) fn fits(self, bytes: &[u8]) -> bool {
        self.width().is_none_or(|width| width == bytes.len())
    }

    /// Bytes that a value takes in memory.
    fn memory_len(self, bytes: &[u8]) -> usize {
        bytes.len() + self.width().map_or(VARLENA_HEADER_LEN, |_| 0)
    }

    /// Puts a value together.
    ///
    /// # Safety
    ///
    /// At `memory` there is room for [`Self::memory_len`] bytes, aligned to 8, which stay as long
    /// as the result is used.
    unsafe fn put(self, bytes: &[u8], memory: *mut u8) -> pg_sys::Datum {
        if self.is_by_value {
            let mut word = [0; size_of::<usize>()];
            let len = bytes.len().min(word.len());
            word[..len].copy_from_slice(&bytes[..len]);
            return pg_sys::Datum::from(usize::from_le_bytes(word));
        }
        let header_len = self.memory_len(bytes) - bytes.len();
        // SAFETY: the caller's. Values come from pages or were values before, so their length fits.
        unsafe {
            if header_len > 0 {
                let len = i32::try_from(self.memory_len(bytes)).unwrap_or(i32::MAX);
                varlena::set_varsize_4b(memory.cast(), len);
            }
            memory
                .add(header_len)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        pg_sys::Datum::from(memory)
    }

    /// The value of some bytes that [fit](Self::fits), for the row that has the memory.
    pub(super) fn datum_of(self, bytes: &[u8], memory: &mut RowMemory) -> pg_sys::Datum {
        if self.is_by_value {
            // SAFETY: nothing is put anywhere.
            return unsafe { self.put(bytes, std::ptr::null_mut()) };
        }
        let memory = memory.take(self.memory_len(bytes));
        // SAFETY: there is room for all of it, and words are aligned to 8.
        unsafe { self.put(bytes, memory.cast()) }
    }

    /// A value of so many bytes, which `fill` writes, for the row that has the memory: of a type
    /// whose values differ in length.
    pub(super) fn datum_with(
        self,
        len: usize,
        memory: &mut RowMemory,
        fill: impl FnOnce(&mut [u8]),
    ) -> pg_sys::Datum {
        let memory_len = VARLENA_HEADER_LEN + len;
        let memory = memory.take(memory_len).cast::<u8>();
        // SAFETY: there is room for all of it, and words are aligned to 8. Keys are short, so the
        // length fits.
        unsafe {
            varlena::set_varsize_4b(memory.cast(), i32::try_from(memory_len).unwrap_or(i32::MAX));
            fill(std::slice::from_raw_parts_mut(
                memory.add(VARLENA_HEADER_LEN),
                len,
            ));
        }
        pg_sys::Datum::from(memory)
    }

    /// Shows `view` the values of two byte strings that [fit](Self::fits).
    pub(super) fn with_both<R>(
        self,
        (a, b): (&[u8], &[u8]),
        view: impl FnOnce(pg_sys::Datum, pg_sys::Datum) -> R,
    ) -> R {
        let words = |bytes| self.memory_len(bytes).div_ceil(size_of::<u64>()).max(2);
        let (words_a, words_b) = (words(a), words(b));
        let mut on_stack = [0_u64; SCRATCH_WORDS];
        let mut on_heap;
        let memory = if words_a + words_b <= SCRATCH_WORDS {
            &mut on_stack[..]
        } else {
            on_heap = vec![0; words_a + words_b];
            &mut on_heap[..]
        };
        let (memory_a, memory_b) = memory.split_at_mut(words_a);
        // SAFETY: there is room for each, and it stays until `view` has returned.
        unsafe {
            let a = self.put(a, memory_a.as_mut_ptr().cast());
            let b = self.put(b, memory_b.as_mut_ptr().cast());
            view(a, b)
        }
    }
}
