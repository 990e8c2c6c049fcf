"""Output of the commands: text, tables, trees and live views."""
