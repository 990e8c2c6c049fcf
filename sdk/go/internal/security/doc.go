// Package security has what a process knows of its mesh: the folder of a mesh on this machine, certificates and their
// SPIFFE ids, and tokens. It returns plain errors: its callers know which typed error they make of one.
package security
