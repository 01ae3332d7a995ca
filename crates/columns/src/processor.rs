//! Loops that are compiled for the processor on which they run.

/// Defines a function that is compiled twice, for every processor and for those with AVX2, whose
/// registers have four numbers; each call picks one. Functions that it calls must be inlined into
/// it to be compiled so.
macro_rules! by_processor {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident $(<$parameter:ident: $bound:path>)? (
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $(#[$attribute])*
        #[cfg_attr(
            all(target_arch = "x86_64", not(miri)),
            expect(
                unsafe_code,
                reason = "instructions that the processor has are known when it runs"
            )
        )]
        $visibility fn $name $(<$parameter: $bound>)? ($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn of_any $(<$parameter: $bound>)? ($($argument: $type),*) $(-> $result)? $body

            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                #[target_feature(enable = "avx2")]
                fn of_avx2 $(<$parameter: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    of_any($($argument),*)
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has what the function is compiled for.
                    return unsafe { of_avx2($($argument),*) };
                }
            }
            of_any($($argument),*)
        }
    };
}

pub(crate) use by_processor;
