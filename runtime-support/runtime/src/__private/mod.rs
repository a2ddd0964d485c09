//! What generated code names. Not for people; versioned, so that committed generated code keeps compiling.
pub mod v1;
