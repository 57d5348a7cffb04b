//! Enumerations of PTX words. Each spelling is stated once, next to its enumeration; the printer and the parser use it.

/// An enumeration of PTX words. A member that PTX leaves unwritten (`Rounding::None`) has the name "".
pub(crate) trait Word: Copy + PartialEq + 'static {
    fn word(self) -> &'static str;
    fn from_word(text: &str) -> Option<Self>;
    /// Every member that has one word.
    const ALL: &'static [Self];
}

/// The variant after `numbered` represents several words, by their numbers in a list.
macro_rules! words {
    ($name:ident { $($variant:ident $text:literal),* $(,)? } $(numbered $many:ident $list:ident)?) => {
        impl $name {
            /// The word of PTX, without a leading dot; empty for the member that PTX leaves unwritten.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                    $($name::$many(number) => $list[number as usize % $list.len()],)?
                }
            }

            /// The member with this name.
            pub fn from_name(text: &str) -> Option<$name> {
                match text {
                    $($text => Some($name::$variant),)*
                    $(text if $list.contains(&text) => {
                        $list.iter().position(|word| *word == text).map(|number| $name::$many(number as u8))
                    })?
                    _ => None,
                }
            }
        }

        impl crate::names::Word for $name {
            fn word(self) -> &'static str { self.name() }
            fn from_word(text: &str) -> Option<Self> { Self::from_name(text) }
            const ALL: &'static [Self] = &[$($name::$variant),*];
        }
    };
}
pub(crate) use words;
