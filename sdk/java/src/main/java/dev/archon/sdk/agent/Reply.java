package dev.archon.sdk.agent;

/** The outcome of a handler. */
public sealed interface Reply permits Answer, Question {}
