"""BioCoder: functions of bioinformatics projects, tested by the output of a program around them."""
