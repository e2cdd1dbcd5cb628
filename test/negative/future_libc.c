void from_the_future(void) {}
void from_the_inside(void) {}
