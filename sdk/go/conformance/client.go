package main

func call() error { return nil }
