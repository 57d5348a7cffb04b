//! Enumerations whose members are words of PTX. Each spelling is stated once, next to its enumeration; the printer and
//! the parser use it.

/// An enumeration whose members are words of PTX. A member that PTX leaves unwritten (`Rounding::None`) has the name
/// "".
pub(crate) trait Word: Copy + PartialEq + 'static {
    fn word(self) -> &'static str;
    fn from_word(text: &str) -> Option<Self>;
}

macro_rules! words {
    ($name:ident { $($variant:ident $text:literal),* $(,)? }) => {
        impl $name {
            /// The word of PTX, without a leading dot; empty for the member that PTX leaves unwritten.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// The member with this name.
            pub fn from_name(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)* _ => None }
            }
        }

        impl crate::names::Word for $name {
            fn word(self) -> &'static str { self.name() }
            fn from_word(text: &str) -> Option<Self> { Self::from_name(text) }
        }
    };
}
pub(crate) use words;
